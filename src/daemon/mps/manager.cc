#include "daemon/mps/manager.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <utility>

#include "base/await_ready.h"
#include "daemon/core/core.h"

namespace gpuman::daemon {

using base::Result;

namespace {

//   "mps/GPU-…": mps/record.h
constexpr std::string_view kMpsKey = "mps/";
std::string MpsKeyOf(const std::string& uuid) { return std::string(kMpsKey) + uuid; }

}  // namespace

MpsManager::MpsManager(Core& core, std::filesystem::path root, std::string boot)
    : core_(core),
      root_(std::move(root)),
      boot_(std::move(boot)),
      timer_(core.loop()),
      looks_([this](std::vector<LookRequest> requests, std::function<void()> done) {
        Poll([requests = std::move(requests), done = std::move(done)] {
          for (const auto& request : requests)
            if (!base::IsCancelled(request)) request.then();
          done();
        });
      }) {}

MpsManager::~MpsManager() { worker_.join(); }

void MpsManager::Aside(std::function<void()> work, std::function<void()> then) {
  boost::asio::post(worker_, [this, work = std::move(work), then = std::move(then)]() mutable {
    work();
    boost::asio::post(core_.loop(), std::move(then));
  });
}

void MpsManager::SetSettings(const MpsSettings& settings) {
  settings_ = settings;
  Tick();
}

Result<std::filesystem::path> MpsManager::Program() const {
  if (!settings_.control.empty()) return std::filesystem::path(settings_.control);
  const char* const path = std::getenv("PATH");
  return mps::FindControl(path ? path : "/usr/local/bin:/usr/bin:/bin");
}

// Shared between the loop and the order that runs on the worker.
Result<std::shared_ptr<mps::Control>> MpsManager::MakeControl(int protocol) const {
  GPUMAN_ASSIGN(auto program, Program());
  return std::make_shared<mps::Control>(std::move(program), root_, core_.processes_of_threads(), protocol);
}

bool MpsManager::IsRunning(const std::string& uuid) const {
  const auto it = units_.find(uuid);
  return it != units_.end() && it->second.state == MpsState::kRunning;
}

std::optional<mps::FoundControlDaemon> MpsManager::RivalOn(const std::string& uuid) const {
  return mps::RivalFor(controls_, root_, uuid);
}

void MpsManager::Keep(const std::string& uuid) {
  const auto it = units_.find(uuid);
  const auto record =
      it == units_.end() ? std::nullopt : std::optional(mps::SerializeRecord(it->second.record));
  core_.Keep({{MpsKeyOf(uuid), record}}, [](base::Result<> written) {
    if (!written) spdlog::warn("the state of a GPU's MPS could not be stored: {}", written.error().message);
  });
}

void MpsManager::Tell(const std::string& kind, const std::string& gpu, const std::string& message,
                      std::map<std::string, std::int64_t> data) {
  const auto* const status = core_.guard().Find(gpu);
  const auto text =
      fmt::format("{}: {}", status ? fmt::format("GPU {}", status->gpu.index) : "GPU " + gpu, message);
  if (kind == "mps_died" || kind == "mps_server_died")
    for (const auto* const job : core_.jobs().Active())
      if (job->spec->mps && job->gpus == std::vector{gpu}) core_.jobs().Note(job->id, text);
  core_.AddGpuEvent(kind, gpu, text, std::move(data));
}

std::vector<pid_t> MpsManager::ProcessesOn(const std::string& gpu) const {
  std::vector<pid_t> pids;
  const auto* const status = core_.guard().Find(gpu);
  if (!status) return pids;
  for (const auto& process : status->processes)
    if (!process.ours && process.kind != gpu::ProcessKind::kGraphics) pids.push_back(process.id.pid);
  return pids;
}

std::string MpsManager::DescribeProcess(pid_t pid) const {
  const auto process = core_.processes().Find(pid);
  if (!process) return fmt::format("pid {}", pid);
  return DescribeClients(
      {{pid, core_.processes().Owner(pid), process->name, {}, true, core_.guard().JobOf(pid).job}});
}

std::string MpsManager::DescribeClients(const std::vector<mps::MpsClient>& clients) const {
  std::vector<std::string> all;
  all.reserve(clients.size());
  for (const auto& client : clients)
    all.push_back(fmt::format("pid {} ({}, user {}{})", client.pid,
                              client.name.empty() ? "unknown" : client.name,
                              client.uid ? core_.NameOf(*client.uid) : "unknown",
                              client.job ? fmt::format(", job {}", client.job->value) : ""));
  return fmt::format("{}", fmt::join(all, ", "));
}

void MpsManager::Recall(const jobs::SettingRows& settings) {
  for (const auto& [key, text] : settings) {
    if (!text || !key.starts_with(kMpsKey)) continue;
    const auto record = mps::ParseRecord(*text);
    if (!record) {
      spdlog::warn("{}: {}", key, record.error().message);
      continue;
    }
    const auto uuid = key.substr(kMpsKey.size());
    MpsUnit& unit = units_[uuid];
    unit.record = *record;
    if (record->boot == boot_ && record->control.pid != 0 && base::IsAlive(record->control)) {
      unit.watch.Reset(!record->changed);
      Adopt(uuid, record->control);
      continue;
    }
    const bool was_alive = record->control.pid != 0;
    unit.state = MpsState::kDead;
    unit.problem = record->boot == boot_ ? "its control daemon ended while gpumand was away"
                                         : "the machine was started anew";
    unit.record.control = {};
    Keep(uuid);
    if (was_alive) Tell("mps_died", uuid, "the MPS of this GPU does not run any more: " + unit.problem, {});
  }
  Tick();
}

void MpsManager::Adopt(const std::string& uuid, base::ProcessId control) {
  MpsUnit& unit = units_.at(uuid);
  auto process = base::OpenProcess(control);
  if (!process) return OnEnded(uuid);
  unit.state = MpsState::kRunning;
  unit.problem.clear();
  unit.record.control = control;
  unit.record.boot = boot_;
  ends_.erase(uuid);
  auto& end = ends_.emplace(uuid, boost::asio::posix::stream_descriptor(core_.loop(), process->Release()))
                  .first->second;
  base::AwaitReady(end, end.wait_read, POLLIN, [this, uuid] { OnEnded(uuid); });
}

// If the control daemon was told to stop, the end of that order does the rest.
void MpsManager::OnEnded(const std::string& uuid) {
  const auto it = units_.find(uuid);
  ends_.erase(uuid);
  if (it == units_.end() || it->second.state == MpsState::kStopping) return;
  MpsUnit& unit = it->second;
  std::vector<mps::MpsClient> clients;
  for (const auto& server : unit.watch.servers())
    clients.insert(clients.end(), server.clients.begin(), server.clients.end());
  const auto pid = unit.record.control.pid;
  unit.state = MpsState::kDead;
  unit.problem = fmt::format("its control daemon (pid {}) ended, and nobody told it to", pid);
  unit.record.control = {};
  unit.watch.Reset();
  Keep(uuid);
  Tell("mps_died", uuid,
       fmt::format("the MPS control daemon (pid {}) of this GPU ended, and nobody told it to{}", pid,
                   clients.empty() ? "" : "; its clients were " + DescribeClients(clients)),
       {{"pid", pid}});
}

void MpsManager::Refresh(std::function<void()> then, std::function<bool()> is_cancelled) {
  looks_.Add({std::move(then), std::move(is_cancelled)});
}

void MpsManager::Poll(std::function<void()> then) {
  struct Round {
    std::vector<mps::FoundControlDaemon> controls;
    std::map<std::string, std::shared_ptr<mps::Control>> asked;
    std::map<std::string, PollResult> seen;
  };
  const auto round = std::make_shared<Round>();  // worker to loop
  for (const auto& [uuid, unit] : units_) {
    const auto control = MakeControl(unit.record.protocol);
    if (!control || unit.state != MpsState::kRunning) continue;
    round->asked[uuid] = *control;
    round->seen[uuid].on_gpu = ProcessesOn(uuid);
  }
  Aside(
      [this, round] {
        round->controls = mps::FindControls(core_.processes_of_threads());
        for (auto& [uuid, seen] : round->seen) seen.servers = round->asked.at(uuid)->Servers(uuid);
      },
      [this, round, then = std::move(then)] {
        controls_ = std::move(round->controls);
        for (const auto& [uuid, seen] : round->seen) Take(uuid, seen);
        ApplyWhatChanged();
        then();
      });
}

void MpsManager::Take(const std::string& uuid, const PollResult& seen) {
  const auto it = units_.find(uuid);
  if (it == units_.end() || it->second.state != MpsState::kRunning) return;
  MpsUnit& unit = it->second;
  unit.problem = seen.servers ? "" : seen.servers.error().message;
  if (!seen.servers) return;
  unit.there = *seen.servers;
  mps::Observation observed{*seen.servers, seen.on_gpu};
  for (auto& server : observed.servers)
    for (auto& client : server.clients) client.job = core_.guard().JobOf(client.pid).job;
  for (const auto& notice : unit.watch.On(observed)) {
    if (notice.kind == mps::MpsNotice::Kind::kUnlimitedProcess) {
      Tell("mps_outside", uuid,
           fmt::format("{} uses this GPU and is no client of its MPS server: none of the server's limits "
                       "holds for it",
                       DescribeProcess(notice.pid)),
           {{"pid", notice.pid}});
      continue;
    }
    Tell("mps_server_died", uuid,
         fmt::format("the MPS server (pid {}) of this GPU ended{}; {} starts a new one", notice.pid,
                     notice.clients.empty()
                         ? std::string()
                         : fmt::format(", and the work of {} with it", DescribeClients(notice.clients)),
                     unit.record.protocol == 3 ? "gpumand" : "the next client"),
         {{"pid", notice.pid}, {"clients", static_cast<std::int64_t>(notice.clients.size())}});
  }
}

// Plans the next look while MPS is on any GPU.
void MpsManager::Tick() {
  timer_.cancel();
  if (units_.empty()) return;
  timer_.expires_after(settings_.look);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    for (const auto& [uuid, unit] : std::map(units_))
      if (unit.state == MpsState::kDead && settings_.restart)
        Launch(uuid, unit.record.limits, [uuid = uuid](const Result<Notes>& started) {
          if (!started)
            spdlog::warn("the MPS of {} was not started again: {}", uuid, started.error().message);
        });
    Refresh([this] { Tick(); });
  });
}

}  // namespace gpuman::daemon
