// Processes that users started outside gpuman, on one GPU.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "guard/decision_context.h"

namespace gpuman::guard {
namespace {

using Processes = std::vector<const gpu::AttributedProcess*>;

struct UserUse {
  base::Bytes known;
  Processes processes;
};

std::map<uid_t, UserUse> ByUser(const GpuSnapshot& gpu, const PolicySettings& settings) {
  std::map<uid_t, UserUse> users;
  for (const auto& process : gpu.processes) {
    if (!process.uid || !IsUnmanaged(process, settings)) continue;
    auto& use = users[*process.uid];
    use.known += process.memory.value_or(base::Bytes{});
    use.processes.push_back(&process);
  }
  return users;
}

// The newest process that holds memory; nullptr while a process that is being ended is still listed.
const gpu::AttributedProcess* NextToEnd(const DecisionContext& round, const Processes& processes) {
  const gpu::AttributedProcess* newest = nullptr;
  for (const auto* process : processes) {
    if (IsLeaving(round, TargetOf(*process))) return nullptr;
    if (round.state.processes.contains(process->id) || process->memory.value_or(base::Bytes{}).count == 0)
      continue;
    if (!newest ||
        std::tie(newest->id.start_time, newest->id.pid) < std::tie(process->id.start_time, process->id.pid))
      newest = process;
  }
  return newest;
}

void Warn(DecisionContext& round, const GpuSnapshot& gpu, uid_t uid, base::Bytes used, base::Bytes ceiling) {
  if (!round.state.unmanaged_reported.insert({gpu.uuid, uid}).second) return;
  Action action;
  action.event.kind = kUnmanagedWarning;
  action.event.at = round.now;
  action.event.gpu = gpu.uuid;
  action.event.message =
      fmt::format("processes of user {} outside gpuman use {} on {}, over the {} set for them", uid,
                  Exactly(used), NameOf(gpu), Exactly(ceiling));
  action.event.data = {{"used", Count(used)}, {"limit", Count(ceiling)}, {"uid", uid}};
  round.actions.push_back(std::move(action));
}

void Enforce(DecisionContext& round, const GpuSnapshot& gpu, uid_t uid, const UserUse& use,
             base::Bytes ceiling) {
  const gpu::AttributedProcess* process = NextToEnd(round, use.processes);
  if (!process) return;
  EndProcess(
      round, *process, gpu,
      {std::string(kUnmanagedLimit),
       "memory_limit",
       fmt::format("processes of user {} outside gpuman use {} on {}, over their limit of {}: ended {}", uid,
                   Exactly(use.known), NameOf(gpu), Exactly(ceiling), NameOf(*process)),
       {{"used", Count(use.known)}, {"limit", Count(ceiling)}, {"uid", uid}}});
}

}  // namespace

bool IsUnmanaged(const gpu::AttributedProcess& process, const PolicySettings& settings) {
  return !process.job && process.uid && !IsProtected(process, settings);
}

const UnmanagedRule* RuleFor(uid_t uid, const PolicySettings& settings) {
  const UnmanagedRule* everybody = nullptr;
  for (const auto& rule : settings.unmanaged) {
    if (rule.uid == uid) return &rule;
    if (!rule.uid && uid != 0 && !everybody) everybody = &rule;
  }
  return everybody;
}

void HoldUnmanaged(DecisionContext& round, const GpuSnapshot& gpu) {
  if (round.settings.unmanaged.empty()) return;
  const auto users = ByUser(gpu, round.settings);
  std::erase_if(round.state.unmanaged_reported,
                [&](const auto& told) { return told.first == gpu.uuid && !users.contains(told.second); });
  for (const auto& [uid, use] : users) {
    const UnmanagedRule* rule = RuleFor(uid, round.settings);
    if (!rule) continue;
    const base::Bytes ceiling = rule->ceiling.Of(gpu.total);
    if (use.known < FallenBelow(ceiling)) round.state.unmanaged_reported.erase({gpu.uuid, uid});
    if (use.known <= ceiling) continue;
    if (rule->mode == UnmanagedMode::kWarn)
      Warn(round, gpu, uid, use.known, ceiling);
    else
      Enforce(round, gpu, uid, use, ceiling);
  }
}

}  // namespace gpuman::guard
