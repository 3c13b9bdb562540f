// The orders of the manager: each order waits on the worker thread and ends on the loop.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "daemon/core/authorization.h"
#include "daemon/core/core.h"
#include "daemon/mps/manager.h"

namespace gpuman::daemon {

using base::ErrorCode;
using base::Fail;
using base::Result;

namespace {

base::Error NotRunning(const gpu::Gpu& gpu) {
  return {ErrorCode::kConflict, fmt::format("no MPS of gpuman runs on GPU {}", gpu.index),
          fmt::format("gpuman mps start --gpu {}", gpu.index)};
}

base::Error InTheWay(const mps::FoundControlDaemon& rival, unsigned gpu) {
  return {ErrorCode::kConflict,
          fmt::format(
              "an MPS that gpuman did not start may serve GPU {}: nvidia-cuda-mps-control, pid {}, user {}{}",
              gpu, rival.id.pid, UserName(rival.uid), rival.pipe ? ", in " + *rival.pipe : ""),
          "its owner ends it with: echo quit | nvidia-cuda-mps-control"};
}

}  // namespace

// The unit of a GPU on which no order is in progress; nullptr: MPS is off there.
Result<MpsUnit*> MpsManager::Free(const gpu::Gpu& gpu) {
  const auto it = units_.find(gpu.uuid);
  if (it == units_.end()) return nullptr;
  const auto state = it->second.state;
  if (state == MpsState::kStarting || state == MpsState::kStopping)
    return Fail(ErrorCode::kConflict, fmt::format("the MPS of GPU {} is being {} at this moment", gpu.index,
                                                  state == MpsState::kStarting ? "started" : "stopped"));
  return &it->second;
}

Result<> MpsManager::MayStart(const gpu::Gpu& gpu) {
  GPUMAN_ASSIGN(const auto* const unit, Free(gpu));
  if (unit && unit->state == MpsState::kRunning)
    return Fail(ErrorCode::kConflict,
                fmt::format("MPS runs on GPU {} already (pid {})", gpu.index, unit->record.control.pid),
                "gpuman mps limit changes its limits");
  if (gpu.split)
    return Fail(
        ErrorCode::kConflict,
        fmt::format("GPU {} is split into instances (MIG), and gpuman starts MPS for whole GPUs", gpu.index),
        fmt::format("a job in an instance has it to itself without MPS; gpuman mig clear --gpu {} "
                    "--disable makes the GPU whole again",
                    gpu.index));
  return {};
}

void MpsManager::Start(const gpu::Gpu& gpu, const mps::Limits& limits, Done done) {
  if (auto may = MayStart(gpu); !may) return done(Fail(std::move(may.error())));
  Launch(gpu.uuid, limits, [this, gpu, done = std::move(done)](Result<Notes> started) {
    if (!started && started.error().code == ErrorCode::kConflict)
      if (const auto rival = RivalOn(gpu.uuid)) return done(Fail(InTheWay(*rival, gpu.index)));
    if (!started) return done(Fail(std::move(started.error()).In(fmt::format("GPU {}", gpu.index))));
    done(std::move(started));
  });
}

void MpsManager::Launch(const std::string& uuid, const mps::Limits& limits, Done done) {
  const auto program = Program();
  if (!program) return done(Fail(program.error()));
  const bool was_dead = units_.contains(uuid);
  MpsUnit& unit = units_[uuid];
  unit.state = MpsState::kStarting;
  unit.record.limits = limits;
  struct LaunchResult {
    std::vector<mps::FoundControlDaemon> controls;
    Result<Launched> started = Launched{};
  };
  const auto result = std::make_shared<LaunchResult>();  // written on the worker, read on the loop
  Aside(
      [this, program = *program, setting = settings_.protocol, uuid, limits, result] {
        const auto& table = core_.processes_of_threads();
        result->controls = mps::FindControls(table);
        if (mps::RivalFor(result->controls, root_, uuid))
          result->started = Fail(ErrorCode::kConflict, "an MPS that gpuman did not start is in the way");
        else
          result->started =
              LaunchOnWorker(program, root_, table, setting,
                             mps::ControlAt(result->controls, DirectoriesFor(uuid).pipe), uuid, limits);
      },
      [this, uuid, was_dead, result, done = std::move(done)] {
        controls_ = std::move(result->controls);
        if (!result->started && !was_dead) units_.erase(uuid);
        OnLaunched(uuid, std::move(result->started), done);
      });
}

// A daemon that runs keeps its protocol.
Result<MpsManager::Launched> MpsManager::LaunchOnWorker(const std::filesystem::path& program,
                                                        const std::filesystem::path& root,
                                                        const base::ProcessTable& table,
                                                        MpsProtocolSetting setting,
                                                        const std::optional<mps::FoundControlDaemon>& runs,
                                                        const std::string& uuid, const mps::Limits& limits) {
  Launched launched;
  if (runs)
    launched.protocol = runs->protocol;
  else if (setting != MpsProtocolSetting::k2)
    launched.protocol = mps::AskProtocol(program);
  if (!runs && setting == MpsProtocolSetting::k3 && launched.protocol != 3)
    return Fail(ErrorCode::kNotSupported,
                "mps.protocol is 3, and nvidia-cuda-mps-control speaks only 2: 3 comes with driver 615",
                "set mps.protocol = \"auto\" in gpumand.toml");
  const mps::Control control(program, root, table, launched.protocol);
  GPUMAN_ASSIGN(launched.control, control.Start(uuid, limits));
  launched.time_slices = control.HasTimeSlices(uuid);
  return launched;
}

void MpsManager::OnLaunched(const std::string& uuid, Result<Launched> started, const Done& done) {
  if (!started) {
    if (const auto it = units_.find(uuid); it != units_.end()) {
      it->second.state = MpsState::kDead;
      it->second.problem = started.error().message;
    }
    return done(Fail(std::move(started.error())));
  }
  MpsUnit& unit = units_.at(uuid);
  unit.watch.Reset();
  unit.record.since = core_.clock().Wall();
  unit.record.changed = false;
  unit.record.protocol = started->protocol;
  unit.record.time_slices = started->time_slices;
  unit.there.clear();
  unit.apply_error.clear();
  const auto pid = started->control.pid;
  Adopt(uuid, started->control);
  Keep(uuid);
  Tell("mps_started", uuid, fmt::format("MPS serves this GPU (control daemon: pid {})", pid), {{"pid", pid}});
  ApplyWhatChanged();
  Tick();
  done(
      Notes{"A fault of one client ends the work of every other client of its server: MPS is for programs "
            "that trust "
            "one another.",
            "Only programs that find the server are its clients (gpuman run --mps): others run beside it, "
            "without its "
            "limits. In compute mode exclusive-process the driver refuses them."});
}

void MpsManager::Stop(const gpu::Gpu& gpu, bool force, Done done) {
  const auto unit = Free(gpu);
  if (!unit) return done(Fail(unit.error()));
  if (!*unit)
    return done(Fail(ErrorCode::kConflict, fmt::format("no MPS of gpuman runs on GPU {}", gpu.index)));
  if ((*unit)->state == MpsState::kDead) {
    units_.erase(gpu.uuid);
    Keep(gpu.uuid);
    return done(Notes{fmt::format("The MPS of GPU {} had ended already.", gpu.index)});
  }
  if (force) return Quit(gpu.uuid, /*force=*/true, std::move(done));
  const auto control = MakeControl((*unit)->record.protocol);
  if (!control) return done(Fail(control.error()));
  (*unit)->state = MpsState::kStopping;
  const auto servers = std::make_shared<Result<std::vector<mps::MpsServerStatus>>>();  // worker to loop
  Aside([control = *control, uuid = gpu.uuid, servers] { *servers = control->Servers(uuid); },
        [this, gpu, servers, done = std::move(done)]() mutable {
          units_.at(gpu.uuid).state = MpsState::kRunning;
          if (!*servers) return done(Fail(std::move(servers->error())));
          std::vector<std::string> clients;
          for (const auto& server : **servers)
            for (const auto& client : server.clients) clients.push_back(DescribeProcess(client.pid));
          if (clients.empty()) return Quit(gpu.uuid, /*force=*/false, std::move(done));
          done(Fail(ErrorCode::kConflict,
                    fmt::format("the MPS of GPU {} has clients: {}", gpu.index, fmt::join(clients, ", ")),
                    "wait for them, or end their work on the GPU with --force"));
        });
}

void MpsManager::Quit(const std::string& uuid, bool force, Done done) {
  MpsUnit& unit = units_.at(uuid);
  const auto control = MakeControl(unit.record.protocol);
  if (!control) return done(Fail(control.error()));
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
          Tell("mps_stopped", uuid, "MPS serves this GPU no more", {{"pid", pid.pid}});
          done(Notes{});
        });
}

void MpsManager::Limit(const gpu::Gpu& gpu, const mps::Limits& limits, Done done) {
  const auto unit = Free(gpu);
  if (!unit) return done(Fail(unit.error()));
  if (!*unit || (*unit)->state != MpsState::kRunning) return done(Fail(NotRunning(gpu)));
  const auto control = MakeControl((*unit)->record.protocol);
  if (!control) return done(Fail(control.error()));
  struct LimitsResult {
    PollResult before;  // clients that came under the old limits
    Result<mps::AppliedLimits> applied;
  };
  const auto result = std::make_shared<LimitsResult>();  // worker to loop
  result->before.on_gpu = ProcessesOn(gpu.uuid);
  auto wanted = WantedOn(gpu.uuid);
  if (limits.threads) wanted.limits.threads = limits.threads;
  if (limits.memory) wanted.limits.memory = limits.memory;
  Aside(
      [control = *control, uuid = gpu.uuid, wanted = std::move(wanted), result] {
        result->before.servers = control->Servers(uuid);
        result->applied = control->ApplyLimits(uuid, wanted);
      },
      [this, uuid = gpu.uuid, limits, result, done = std::move(done)] {
        Take(uuid, result->before);
        OnApplied(uuid, result->applied);
        if (!result->applied) return done(Fail(std::move(result->applied.error())));
        if (const auto& problems = result->applied->problems; !problems.empty())
          return done(Fail(ErrorCode::kConflict, mps::Describe(problems)));
        const auto it = units_.find(uuid);
        if (it == units_.end()) return done(Fail(ErrorCode::kConflict, "it was stopped meanwhile"));
        it->second.record.changed = true;
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
          const auto control = MakeControl(unit.record.protocol);
          if (!control) return done(Fail(control.error()));
          const auto gone = std::make_shared<Result<>>();  // worker to loop
          return Aside([control = *control, uuid = uuid, server = server.pid, client,
                        gone] { *gone = control->Terminate(uuid, server, client); },
                       [this, uuid = uuid, client, gone, done = std::move(done)] {
                         if (!*gone) return done(Fail(std::move(gone->error())));
                         Tell("mps_client_terminated", uuid,
                              fmt::format("client {} was taken off its MPS server", DescribeProcess(client)),
                              {{"pid", client}});
                         done(Notes{});
                       });
        }
    done(Fail(ErrorCode::kNotFound, fmt::format("no MPS server has a client with pid {}", client),
              "gpuman mps status lists them"));
  });
}

}  // namespace gpuman::daemon
