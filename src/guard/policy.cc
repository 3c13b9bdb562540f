#include "guard/policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "guard/decision_context.h"

namespace gpuman::guard {

std::vector<Action> Decide(const Snapshot& snapshot, const PolicySettings& settings, base::MonoTime now,
                           PolicyState& state) {
  std::vector<Action> actions;
  DecisionContext round{snapshot, settings, now, state, actions};
  ForgetEnded(round);
  FollowSuspensions(round);
  ContinueEndings(round);
  for (const auto& gpu : snapshot.gpus) {
    if (!round.IsFresh(gpu)) continue;
    HoldLimits(round, gpu);
    HoldUnmanaged(round, gpu);
    HoldReserve(round, gpu);
  }
  return actions;
}

std::optional<base::MonoTime> NextDeadline(const PolicyState& state) {
  std::optional<base::MonoTime> next;
  const auto consider = [&next](const Ending& ending) {
    if (ending.stage == EndingStage::kTerminating && (!next || ending.kill_at < *next)) next = ending.kill_at;
  };
  for (const auto& [id, job] : state.jobs) consider(job.ending);
  for (const auto& [id, ending] : state.processes) consider(ending);
  return next;
}

namespace {

void AddTo(GuardUsage& usage, const gpu::AttributedProcess& process) {
  ++usage.processes;
  if (process.memory)
    usage.known += *process.memory;
  else
    ++usage.unknown;
}

}  // namespace

std::map<JobId, GuardUsage> UsageByJob(const std::vector<gpu::AttributedProcess>& processes) {
  std::map<JobId, GuardUsage> usages;
  for (const auto& process : processes) {
    if (process.job) AddTo(usages[*process.job], process);
  }
  return usages;
}

GuardUsage UsageOf(JobId job, const std::vector<gpu::AttributedProcess>& processes) {
  GuardUsage usage;
  for (const auto& process : processes)
    if (process.job == job) AddTo(usage, process);
  return usage;
}

std::set<std::string> DefaultProtectedNames() {
  // The kernel cuts comm at 15 characters.
  return {"Xorg",
          "Xwayland",
          "X",
          "gnome-shell",
          "gnome-remote-de",
          "kwin_x11",
          "mutter",
          "kwin_wayland",
          "plasmashell",
          "sway",
          "weston",
          "Hyprland",
          "cinnamon",
          "gdm-wayland-ses",
          "sddm",
          "sddm-greeter",
          "lightdm",
          "xfwm4",
          "nvidia-cuda-mps",
          "nvidia-persiste"};
}

bool IsProtected(const gpu::AttributedProcess& process, const PolicySettings& settings) {
  if (process.id.start_time == 0) return true;  // it ended before we could read it
  if (process.ours) return true;
  if (!settings.protected_names.contains(process.name)) return false;
  return process.uid == uid_t{0} || process.kind != gpu::ProcessKind::kCompute;
}

std::int64_t Nanoseconds(base::MonoTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::string Exactly(base::Bytes bytes) {
  return fmt::format("{} ({} bytes)", base::FormatBytes(bytes), bytes.count);
}

std::string NameOf(const JobSnapshot& job) { return fmt::format("job {} '{}'", job.id.value, job.tag); }

std::string NameOf(const GpuSnapshot& gpu) { return fmt::format("GPU {}", gpu.number); }

std::string NameOf(const gpu::AttributedProcess& process) {
  return fmt::format("process {} '{}'", process.id.pid, process.name);
}

}  // namespace gpuman::guard
