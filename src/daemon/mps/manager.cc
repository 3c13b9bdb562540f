#include "daemon/mps/manager.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <utility>

#include "daemon/authorization.h"

namespace gpuman::daemon {

using base::ErrorCode;
using base::Fail;
using base::Result;

namespace {

//   "mps/GPU-…": mps/record.h
constexpr std::string_view kKey = "mps/";
std::string KeyOf(const std::string& uuid) { return std::string(kKey) + uuid; }

base::Error NotRunning(const gpu::Gpu& gpu) {
  return {ErrorCode::kConflict, fmt::format("no MPS of gpuman runs on GPU {}", gpu.index),
          fmt::format("gpuman mps start --gpu {}", gpu.index)};
}

base::Error InTheWay(const mps::ControlProcess& rival, unsigned gpu) {
  return {ErrorCode::kConflict,
          fmt::format(
              "an MPS that gpuman did not start may serve GPU {}: nvidia-cuda-mps-control, pid {}, user {}{}",
              gpu, rival.id.pid, UserName(rival.uid), rival.pipe ? ", in " + *rival.pipe : ""),
          "its owner ends it with: echo quit | nvidia-cuda-mps-control"};
}

}  // namespace

// What one look found, on the worker.
struct MpsManager::Seen {
  std::vector<pid_t> on_gpu;
  Result<std::vector<mps::Server>> servers = std::vector<mps::Server>{};
};

MpsManager::MpsManager(boost::asio::io_context& loop, const base::Clock& clock,
                       const base::ProcessTable& table, MpsHost& host, std::filesystem::path root,
                       std::string boot)
    : loop_(loop),
      clock_(clock),
      table_(table),
      host_(host),
      root_(std::move(root)),
      boot_(std::move(boot)),
      timer_(loop) {}

MpsManager::~MpsManager() { worker_.join(); }

void MpsManager::Aside(std::function<void()> work, std::function<void()> then) {
  boost::asio::post(worker_, [this, work = std::move(work), then = std::move(then)]() mutable {
    work();
    boost::asio::post(loop_, std::move(then));
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
Result<std::shared_ptr<mps::Control>> MpsManager::MakeControl() const {
  GPUMAN_ASSIGN(auto program, Program());
  return std::make_shared<mps::Control>(std::move(program), root_, table_);
}

bool MpsManager::IsRunning(const std::string& uuid) const {
  const auto it = units_.find(uuid);
  return it != units_.end() && it->second.state == MpsState::kRunning;
}

std::optional<mps::ControlProcess> MpsManager::RivalOn(const std::string& uuid) const {
  return mps::RivalFor(controls_, root_, uuid);
}

void MpsManager::Keep(const std::string& uuid) {
  const auto it = units_.find(uuid);
  host_.KeepMps({{KeyOf(uuid), it == units_.end() ? std::nullopt
                                                  : std::optional(mps::SerializeRecord(it->second.record))}});
}

void MpsManager::Recall(const jobs::Settings& settings) {
  for (const auto& [key, text] : settings) {
    if (!text || !key.starts_with(kKey)) continue;
    const auto record = mps::ParseRecord(*text);
    if (!record) {
      spdlog::warn("{}: {}", key, record.error().message);
      continue;
    }
    const auto uuid = key.substr(kKey.size());
    MpsUnit& unit = units_[uuid];
    unit.record = *record;
    if (record->boot == boot_ && record->control.pid != 0 && base::IsAlive(record->control)) {
      Adopt(uuid, record->control);
      continue;
    }
    const bool was_alive = record->control.pid != 0;
    unit.state = MpsState::kDead;
    unit.problem = record->boot == boot_ ? "its control daemon ended while gpumand was away"
                                         : "the machine was started anew";
    unit.record.control = {};
    Keep(uuid);
    if (was_alive)
      host_.TellMps("mps_died", uuid, "the MPS of this GPU does not run any more: " + unit.problem, {});
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
  auto& end =
      ends_.emplace(uuid, boost::asio::posix::stream_descriptor(loop_, process->Release())).first->second;
  end.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                 [this, uuid](boost::system::error_code error) {
                   if (!error) OnEnded(uuid);
                 });
}

// Of a daemon that was told to stop, the order's end says the rest.
void MpsManager::OnEnded(const std::string& uuid) {
  const auto it = units_.find(uuid);
  ends_.erase(uuid);
  if (it == units_.end() || it->second.state == MpsState::kStopping) return;
  MpsUnit& unit = it->second;
  std::string clients;
  for (const auto& server : unit.watch.servers())
    for (const auto& client : server.clients)
      clients += (clients.empty() ? "" : ", ") + host_.DescribeMpsClient(client.pid);
  const auto pid = unit.record.control.pid;
  unit.state = MpsState::kDead;
  unit.problem = fmt::format("its control daemon (pid {}) ended, and nobody told it to", pid);
  unit.record.control = {};
  unit.watch.Reset();
  Keep(uuid);
  host_.TellMps("mps_died", uuid,
                fmt::format("the MPS control daemon (pid {}) of this GPU ended, and nobody told it to{}", pid,
                            clients.empty() ? "" : "; its clients were " + clients),
                {{"pid", pid}});
}

// The unit of a GPU on which no order is under way; nullptr: MPS is off there.
Result<MpsUnit*> MpsManager::Free(const gpu::Gpu& gpu) {
  const auto it = units_.find(gpu.uuid);
  if (it == units_.end()) return nullptr;
  const auto state = it->second.state;
  if (state == MpsState::kStarting || state == MpsState::kStopping)
    return Fail(ErrorCode::kConflict, fmt::format("the MPS of GPU {} is being {} at this moment", gpu.index,
                                                  state == MpsState::kStarting ? "started" : "stopped"));
  return &it->second;
}

void MpsManager::Start(const gpu::Gpu& gpu, const mps::Limits& limits, Done done) {
  const auto unit = Free(gpu);
  if (!unit) return done(Fail(unit.error()));
  if (*unit && (*unit)->state == MpsState::kRunning)
    return done(
        Fail(ErrorCode::kConflict,
             fmt::format("MPS runs on GPU {} already (pid {})", gpu.index, (*unit)->record.control.pid),
             "gpuman mps limit changes its limits"));
  Launch(gpu.uuid, limits, [this, gpu, done = std::move(done)](Result<Notes> started) {
    if (!started && started.error().code == ErrorCode::kConflict)
      if (const auto rival = RivalOn(gpu.uuid)) return done(Fail(InTheWay(*rival, gpu.index)));
    if (!started) return done(Fail(std::move(started.error()).In(fmt::format("GPU {}", gpu.index))));
    done(std::move(started));
  });
}

void MpsManager::Launch(const std::string& uuid, const mps::Limits& limits, Done done) {
  const auto control = MakeControl();
  if (!control) return done(Fail(control.error()));
  const bool was_dead = units_.contains(uuid);
  MpsUnit& unit = units_[uuid];
  unit.state = MpsState::kStarting;
  unit.record.limits = limits;
  struct Outcome {
    std::vector<mps::ControlProcess> controls;
    Result<base::ProcessId> started = base::ProcessId{};
  };
  const auto outcome = std::make_shared<Outcome>();  // written on the worker, read on the loop
  Aside(
      [this, control = *control, uuid, limits, outcome] {
        outcome->controls = mps::FindControls(table_);
        if (mps::RivalFor(outcome->controls, root_, uuid))
          outcome->started = Fail(ErrorCode::kConflict, "an MPS that gpuman did not start is in the way");
        else
          outcome->started = control->Start(uuid, limits);
      },
      [this, uuid, was_dead, outcome, done = std::move(done)] {
        controls_ = std::move(outcome->controls);
        if (!outcome->started && !was_dead) units_.erase(uuid);
        OnLaunched(uuid, std::move(outcome->started), done);
      });
}

void MpsManager::OnLaunched(const std::string& uuid, Result<base::ProcessId> started, const Done& done) {
  if (!started) {
    if (const auto it = units_.find(uuid); it != units_.end()) {
      it->second.state = MpsState::kDead;
      it->second.problem = started.error().message;
    }
    return done(Fail(std::move(started.error())));
  }
  MpsUnit& unit = units_.at(uuid);
  unit.watch.Reset();
  unit.record.since = clock_.Wall();
  Adopt(uuid, *started);
  Keep(uuid);
  host_.TellMps("mps_started", uuid,
                fmt::format("MPS serves this GPU (control daemon: pid {})", started->pid),
                {{"pid", started->pid}});
  Tick();
  done(
      Notes{"A fault of one client ends the work of every other client of its server: MPS is for programs "
            "that trust "
            "one another.",
            "Only programs that find the server are its clients (gpuman run --mps): others run beside it, "
            "without its "
            "limits. In compute mode exclusive_process the driver refuses them."});
}

void MpsManager::Stop(const gpu::Gpu& gpu, bool force, Done done) {
  const auto unit = Free(gpu);
  if (!unit) return done(Fail(unit.error()));
  if (!*unit) return done(Fail(NotRunning(gpu)));
  if ((*unit)->state == MpsState::kDead) {
    units_.erase(gpu.uuid);
    Keep(gpu.uuid);
    return done(Notes{fmt::format("The MPS of GPU {} had ended already.", gpu.index)});
  }
  if (force) return Quit(gpu.uuid, true, std::move(done));
  const auto control = MakeControl();
  if (!control) return done(Fail(control.error()));
  (*unit)->state = MpsState::kStopping;
  const auto servers = std::make_shared<Result<std::vector<mps::Server>>>();  // worker to loop
  Aside([control = *control, uuid = gpu.uuid, servers] { *servers = control->Servers(uuid); },
        [this, gpu, servers, done = std::move(done)]() mutable {
          units_.at(gpu.uuid).state = MpsState::kRunning;
          if (!*servers) return done(Fail(std::move(servers->error())));
          std::vector<std::string> clients;
          for (const auto& server : **servers)
            for (const auto& client : server.clients) clients.push_back(host_.DescribeMpsClient(client.pid));
          if (clients.empty()) return Quit(gpu.uuid, false, std::move(done));
          done(Fail(ErrorCode::kConflict,
                    fmt::format("the MPS of GPU {} has clients: {}", gpu.index, fmt::join(clients, ", ")),
                    "wait for them, or end their work on the GPU with --force"));
        });
}

void MpsManager::Quit(const std::string& uuid, bool force, Done done) {
  const auto control = MakeControl();
  if (!control) return done(Fail(control.error()));
  MpsUnit& unit = units_.at(uuid);
  unit.state = MpsState::kStopping;
  const auto stopped = std::make_shared<Result<>>();  // worker to loop
  Aside([control = *control, uuid, force, daemon = unit.record.control,
         stopped] { *stopped = control->Stop(uuid, daemon, force); },
        [this, uuid, stopped, done = std::move(done)] {
          MpsUnit& stopping = units_.at(uuid);
          const auto pid = stopping.record.control;
          if (!*stopped && base::IsAlive(pid)) {
            stopping.state = MpsState::kRunning;
            return done(Fail(std::move(stopped->error())));
          }
          units_.erase(uuid);
          ends_.erase(uuid);
          Keep(uuid);
          host_.TellMps("mps_stopped", uuid, "MPS serves this GPU no more", {{"pid", pid.pid}});
          done(Notes{});
        });
}

void MpsManager::Limit(const gpu::Gpu& gpu, const mps::Limits& limits, Done done) {
  const auto unit = Free(gpu);
  if (!unit) return done(Fail(unit.error()));
  if (!*unit || (*unit)->state != MpsState::kRunning) return done(Fail(NotRunning(gpu)));
  const auto control = MakeControl();
  if (!control) return done(Fail(control.error()));
  const auto applied = std::make_shared<Result<>>();  // worker to loop
  Aside(
      [control = *control, uuid = gpu.uuid, limits, applied] { *applied = control->Apply(uuid, limits); },
      [this, uuid = gpu.uuid, limits, applied, done = std::move(done)] {
        if (!*applied) return done(Fail(std::move(applied->error())));
        const auto it = units_.find(uuid);
        if (it == units_.end()) return done(Fail(ErrorCode::kConflict, "it was stopped meanwhile"));
        auto& kept = it->second.record.limits;
        if (limits.threads) kept.threads = limits.threads;
        if (limits.memory) kept.memory = limits.memory;
        Keep(uuid);
        done(Notes{"Clients that are there keep the limits they came with; these hold for those that come."});
      });
}

void MpsManager::Terminate(pid_t client, Done done) {
  Refresh([this, client, done = std::move(done)]() mutable {
    for (const auto& [uuid, unit] : units_)
      for (const auto& server : unit.watch.servers())
        for (const auto& each : server.clients) {
          if (each.pid != client || unit.state != MpsState::kRunning) continue;
          const auto control = MakeControl();
          if (!control) return done(Fail(control.error()));
          const auto gone = std::make_shared<Result<>>();  // worker to loop
          return Aside([control = *control, uuid, server = server.pid, client,
                        gone] { *gone = control->Terminate(uuid, server, client); },
                       [this, uuid, client, gone, done = std::move(done)] {
                         if (!*gone) return done(Fail(std::move(gone->error())));
                         host_.TellMps("mps_client_terminated", uuid,
                                       fmt::format("client {} was taken off its MPS server",
                                                   host_.DescribeMpsClient(client)),
                                       {{"pid", client}});
                         done(Notes{});
                       });
        }
    done(Fail(ErrorCode::kNotFound, fmt::format("no MPS server has a client with pid {}", client),
              "gpuman mps status lists them"));
  });
}

void MpsManager::Refresh(std::function<void()> then) {
  const auto control = MakeControl();
  struct Round {
    std::vector<mps::ControlProcess> controls;
    std::map<std::string, Seen> seen;
  };
  const auto round = std::make_shared<Round>();  // worker to loop
  for (const auto& [uuid, unit] : units_)
    if (control && unit.state == MpsState::kRunning) round->seen[uuid].on_gpu = host_.MpsProcessesOn(uuid);
  Aside(
      [this, control, round] {
        round->controls = mps::FindControls(table_);
        for (auto& [uuid, seen] : round->seen) seen.servers = (*control)->Servers(uuid);
      },
      [this, round, then = std::move(then)] {
        controls_ = std::move(round->controls);
        for (const auto& [uuid, seen] : round->seen) Take(uuid, seen);
        then();
      });
}

void MpsManager::Take(const std::string& uuid, const Seen& seen) {
  const auto it = units_.find(uuid);
  if (it == units_.end() || it->second.state != MpsState::kRunning) return;
  MpsUnit& unit = it->second;
  unit.problem = seen.servers ? "" : seen.servers.error().message;
  if (!seen.servers) return;
  for (const auto& notice : unit.watch.On({*seen.servers, seen.on_gpu})) {
    if (notice.kind == mps::Notice::Kind::kOutside) {
      host_.TellMps(
          "mps_outside", uuid,
          fmt::format("{} uses this GPU and is no client of its MPS server: none of the server's limits "
                      "holds for it",
                      host_.DescribeMpsClient(notice.pid)),
          {{"pid", notice.pid}});
      continue;
    }
    std::vector<std::string> clients;
    for (const pid_t pid : notice.clients) clients.push_back(host_.DescribeMpsClient(pid));
    host_.TellMps(
        "mps_server_died", uuid,
        fmt::format("the MPS server (pid {}) of this GPU ended{}; the next client starts a new one",
                    notice.pid,
                    clients.empty() ? std::string()
                                    : fmt::format(", and the work of {} with it", fmt::join(clients, ", "))),
        {{"pid", notice.pid}, {"clients", static_cast<std::int64_t>(clients.size())}});
  }
}

// The next look, as long as there is something to look at.
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
