// What MPS needs of the daemon, and what jobs need of MPS.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/boot.h"
#include "daemon/mps/views.h"
#include "daemon/service/service.h"

namespace gpuman::daemon {

using base::ErrorCode;
using base::Fail;

void Service::BeginMps(const jobs::SettingRows& settings) {
  MpsHost& host = *this;
  mps_ = std::make_unique<MpsManager>(core_.loop(), core_.clock(), core_.processes_of_threads(), host,
                                      core_.config().socket.parent_path() / "mps", base::BootId());
  mps_->SetSettings(core_.config().mps);
  mps_->Recall(settings);
}

void Service::KeepMps(jobs::SettingRows entries) {
  jobs::Batch batch;
  batch.settings = std::move(entries);
  core_.store().Submit(std::move(batch), [](base::Result<> written) {
    if (!written) spdlog::warn("the state of a GPU's MPS could not be stored: {}", written.error().message);
  });
}

void Service::TellMps(const std::string& kind, const std::string& gpu, const std::string& message,
                      std::map<std::string, std::int64_t> data) {
  const auto* const status = core_.guard().Find(gpu);
  jobs::Event event;
  event.at = core_.clock().Wall();
  event.kind = kind;
  event.gpu = gpu;
  event.message =
      fmt::format("{}: {}", status ? fmt::format("GPU {}", status->gpu.index) : "GPU " + gpu, message);
  event.data = std::move(data);
  spdlog::info("{}: {}", kind, event.message);
  if ((kind == "mps_died" || kind == "mps_server_died"))
    for (const auto* const job : core_.jobs().Active())
      if (job->mps && job->gpus == std::vector{gpu}) core_.jobs().Note(job->id, event.message);
  core_.events().Add(std::move(event));
}

std::vector<pid_t> Service::MpsProcessesOn(const std::string& gpu) {
  std::vector<pid_t> pids;
  const auto* const status = core_.guard().Find(gpu);
  if (!status) return pids;
  for (const auto& process : status->processes)
    if (!process.ours && process.kind != gpu::ProcessKind::kGraphics) pids.push_back(process.id.pid);
  return pids;
}

std::string Service::DescribeMpsClient(pid_t pid) {
  std::string text = fmt::format("pid {}", pid);
  const auto process = core_.processes().Find(pid);
  if (!process) return text;
  const auto owner = core_.processes().Owner(pid);
  const auto job = core_.guard().JobOf(pid).job;
  return fmt::format("{} ({}, user {}{})", text, process->name, owner ? core_.NameOf(*owner) : "unknown",
                     job ? fmt::format(", job {}", job->value) : "");
}

std::vector<std::string> Service::MpsVariablesOf(const jobs::Job& job) {
  if (!job.mps || job.gpus.size() != 1) return {};
  const auto threads = job.mps_threads > 0 ? std::optional(job.mps_threads) : std::nullopt;
  if (!mps_->IsRunning(job.gpus.front())) {
    const std::string what =
        "MPS does not run on its GPU: without a server it runs beside the others there, unlimited";
    core_.Tell(job, {"mps_missing", fmt::format("job {} '{}': {}", job.id.value, job.tag, what), {}});
  }
  std::vector<std::string> variables;
  for (const auto& [name, value] : mps::ClientVariables(mps_->PlacesFor(job.gpus.front()), threads))
    variables.push_back(fmt::format("{}={}", name, value));
  return variables;
}

MpsContext Service::MpsView() {
  return {core_.guard().Statuses(),
          core_.processes(),
          [this](uid_t uid) { return core_.NameOf(uid); },
          [this](pid_t pid) { return core_.guard().JobOf(pid).job; },
          [this](base::JobId id) { return core_.TagOf(id); },
          core_.jobs().Active()};
}

base::Result<std::string> Service::ChooseMps(const std::vector<std::string>& named) {
  if (named.size() > 1)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("mps: a client of MPS works on one GPU, and {} are named", named.size()),
                "name one");
  if (!named.empty() && gpu::IsInstance(named.front()))
    return Fail(ErrorCode::kNotSupported, "mps: gpuman starts it for whole GPUs, not for instances (MIG)",
                "a job in an instance has it to itself without");
  if (!named.empty()) return named.front();
  std::optional<std::string> best;
  std::size_t fewest = 0;
  for (const auto& gpu : core_.whole_gpus().gpus) {
    if (!mps_->IsRunning(gpu.uuid)) continue;
    const auto& active = core_.jobs().Active();
    const auto clients =
        static_cast<std::size_t>(std::count_if(active.begin(), active.end(), [&](const auto* job) {
          return job->mps && job->gpus == std::vector{gpu.uuid};
        }));
    if (best && clients >= fewest) continue;
    best = gpu.uuid;
    fewest = clients;
  }
  if (best) return *best;
  if (core_.whole_gpus().gpus.size() == 1) return core_.whole_gpus().gpus.front().uuid;
  return Fail(ErrorCode::kConflict, "mps: it runs on no GPU",
              "gpuman mps start --gpu 0, or name a GPU with --gpu");
}

void Service::ReadyMps(std::vector<std::string> gpus, std::function<void(base::Result<>)> then) {
  while (!gpus.empty() && mps_->IsRunning(gpus.back())) gpus.pop_back();
  if (gpus.empty()) return then({});
  const auto* const status = core_.guard().Find(gpus.back());
  if (!status) return then(Fail(ErrorCode::kNotFound, "mps: there is no GPU " + gpus.back()));
  const gpu::Gpu gpu = status->gpu;
  if (!mps_->auto_start())
    return then(
        Fail(ErrorCode::kConflict, fmt::format("mps: no MPS of gpuman runs on GPU {}", gpu.index),
             fmt::format("gpuman mps start --gpu {}; or set mps.auto_start in gpumand.toml", gpu.index)));
  gpus.pop_back();
  mps_->Start(
      gpu, {},
      [this, gpus = std::move(gpus), then = std::move(then)](base::Result<MpsManager::Notes> started) {
        if (!started) return then(Fail(std::move(started.error()).In("starting MPS")));
        ReadyMps(gpus, then);
      });
}

}  // namespace gpuman::daemon
