#include "daemon/mps/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace gpuman::daemon {
namespace {

std::string WordOf(MpsState state) {
  switch (state) {
    case MpsState::kStarting:
      return "starting";
    case MpsState::kRunning:
      return "running";
    case MpsState::kStopping:
      return "stopping";
    case MpsState::kDead:
      return "dead";
  }
  return "dead";
}

api::MpsProcess ProcessOf(const MpsViewSources& around, pid_t pid) {
  api::MpsProcess view;
  view.pid = pid;
  if (const auto uid = around.table.Owner(pid)) view.user = around.user_name(*uid);
  if (const auto process = around.table.Find(pid)) view.name = process->name;
  if (const auto job = around.job_of(pid)) {
    view.job = job->value;
    view.tag = around.tag_of(*job);
  }
  return view;
}

// The control program does not list it: a server of a job was made with what the job asked for.
std::optional<double> TimeSliceOf(const MpsViewSources& around, const std::string& server) {
  const auto id = mps::JobOf(server);
  for (const auto* const job : around.jobs)
    if (id && job->id == *id && job->spec->compute) return job->spec->compute->percent;
  return std::nullopt;
}

api::MpsServer ServerOf(const MpsViewSources& around, const mps::MpsServerStatus& server) {
  api::MpsServer view;
  view.pid = server.pid;
  if (server.uid) view.user = around.user_name(*server.uid);
  view.threads = server.limits.threads;
  view.memory = server.limits.memory;
  if (!server.name.empty()) view.name = server.name;
  for (const auto& each : server.namespaces) {
    api::MpsNamespace inner{each.name, {}, each.limits.threads, each.limits.memory};
    if (const auto job = mps::JobOf(each.name)) inner.job = job->value;
    view.namespaces.push_back(std::move(inner));
  }
  view.time_slice = TimeSliceOf(around, server.name);
  for (const auto& client : server.clients) {
    auto process = ProcessOf(around, client.pid);
    process.name_space = client.name_space;
    process.limits_known = client.limits_known;
    if (client.limits_known) {
      process.threads = client.limits.threads;
      process.memory = client.limits.memory;
    }
    view.clients.push_back(std::move(process));
  }
  return view;
}

// Jobs that asked for MPS here while a server of another user serves: none of their processes is a client. By
// protocol 3 users have servers at the same time.
std::vector<std::int64_t> WaitingOn(const MpsUnit& unit, const MpsViewSources& around,
                                    const std::string& uuid) {
  if (unit.record.protocol == 3) return {};
  std::set<uid_t> served;
  std::set<base::JobId> clients;
  for (const auto& server : unit.watch.servers()) {
    if (server.uid) served.insert(*server.uid);
    for (const auto& client : server.clients)
      if (const auto job = around.job_of(client.pid)) clients.insert(*job);
  }
  std::vector<std::int64_t> waiting;
  for (const auto* const job : around.jobs)
    if (job->spec->mps && job->state == spec::JobState::kRunning && job->gpus == std::vector{uuid} &&
        !served.empty() && !served.contains(job->owner->uid) && !clients.contains(job->id))
      waiting.push_back(job->id.value);
  return waiting;
}

void Fill(const MpsManager& manager, const MpsViewSources& around, api::MpsGpu& view) {
  view.pipe_directory = manager.DirectoriesFor(view.uuid).pipe.string();
  const auto it = manager.units().find(view.uuid);
  if (it == manager.units().end()) {
    const auto rival = manager.RivalOn(view.uuid);
    if (!rival) return;
    view.state = "foreign";
    view.pid = rival->id.pid;
    if (rival->pipe) view.pipe_directory = *rival->pipe;
    view.problem = fmt::format("gpuman did not start this one: it belongs to {}, and gpuman leaves it alone",
                               around.user_name(rival->uid));
    return;
  }
  const MpsUnit& unit = it->second;
  view.state = WordOf(unit.state);
  if (const auto& problem = unit.problem.empty() ? unit.apply_error : unit.problem; !problem.empty())
    view.problem = problem;
  if (unit.record.control.pid != 0) {
    view.pid = unit.record.control.pid;
    view.protocol = unit.record.protocol;
  }
  if (unit.record.since != base::WallTime{}) view.since = unit.record.since;
  view.threads = unit.record.limits.threads;
  view.memory = unit.record.limits.memory;
  for (const auto& server : unit.watch.servers()) view.servers.push_back(ServerOf(around, server));
  for (const pid_t pid : unit.watch.outside()) view.outside.push_back(ProcessOf(around, pid));
  view.waiting = WaitingOn(unit, around, view.uuid);
}

}  // namespace

api::MpsReport MpsReportOf(const MpsManager& manager, const MpsViewSources& around,
                           std::vector<std::string> notes) {
  api::MpsReport report;
  if (const auto program = manager.Program()) report.program = program->string();
  report.notes = std::move(notes);
  for (const auto& [uuid, status] : around.gpus) {
    if (status.gpu.mig) continue;
    api::MpsGpu view;
    view.index = static_cast<int>(status.gpu.index);
    view.uuid = uuid;
    view.name = status.gpu.name;
    report.gpus.push_back(std::move(view));
  }
  std::sort(report.gpus.begin(), report.gpus.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  for (const auto& [uuid, unit] : manager.units()) {
    if (around.gpus.contains(uuid)) continue;
    api::MpsGpu view;
    view.uuid = uuid;
    report.gpus.push_back(std::move(view));
  }
  for (auto& view : report.gpus) Fill(manager, around, view);
  return report;
}

}  // namespace gpuman::daemon
