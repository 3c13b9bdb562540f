#include "daemon/mps/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/boot.h"

namespace gpuman::daemon {

using base::ErrorCode;
using base::Fail;

MpsModule::MpsModule(Core& core)
    : core_(core),
      manager_(
          std::make_unique<MpsManager>(core, core.config().socket.parent_path() / "mps", base::BootId())) {
  core_.jobs().callbacks().mps_variables = [this](const jobs::Job& job) { return VariablesOf(job); };
}

void MpsModule::Restore(jobs::StoreContents& contents) {
  Reconfigure();
  manager_->Recall(contents.settings);
}

void MpsModule::Reconfigure() { manager_->SetSettings(core_.config().mps); }

bool MpsModule::Stop() {
  manager_.reset();
  return true;
}

std::vector<std::string> MpsModule::VariablesOf(const jobs::Job& job) const {
  if (!job.spec->mps || job.gpus.size() != 1) return {};
  const auto threads = job.spec->mps_threads;
  if (!manager_->IsRunning(job.gpus.front())) {
    const std::string what =
        "MPS does not run on its GPU: without a server it runs beside the others there, unlimited";
    core_.AddJobEvent(job, {"mps_missing", fmt::format("job {} '{}': {}", job.id.value, job.tag, what), {}});
  }
  std::vector<std::string> variables;
  for (const auto& [name, value] : mps::ClientVariables(manager_->DirectoriesFor(job.gpus.front()), threads))
    variables.push_back(fmt::format("{}={}", name, value));
  return variables;
}

MpsViewSources MpsModule::Context() {
  return {core_.guard().Statuses(),
          core_.processes(),
          [this](uid_t uid) { return core_.NameOf(uid); },
          [this](pid_t pid) { return core_.guard().JobOf(pid).job; },
          [this](base::JobId id) { return core_.TagOf(id); },
          core_.jobs().Active()};
}

base::Result<std::string> MpsModule::Choose(const std::vector<std::string>& named,
                                            const std::function<bool(const gpu::Gpu&)>& is_unfit) const {
  if (named.size() > 1)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("mps: a client of MPS works on one GPU, and {} are named", named.size()),
                "name one");
  if (!named.empty() && gpu::IsInstance(named.front()))
    return Fail(ErrorCode::kNotSupported, "mps: gpuman starts it for whole GPUs, not for instances (MIG)",
                "a job in an instance has it to itself without");
  if (!named.empty()) return named.front();
  std::optional<std::string> best;
  std::pair<bool, std::size_t> least;  // whether it is unfit; its clients
  for (const auto& gpu : core_.whole_gpus().gpus) {
    if (!manager_->IsRunning(gpu.uuid)) continue;
    const auto& active = core_.jobs().Active();
    const auto clients =
        static_cast<std::size_t>(std::count_if(active.begin(), active.end(), [&](const auto* job) {
          return job->spec->mps && job->gpus == std::vector{gpu.uuid};
        }));
    const std::pair counted(is_unfit(gpu), clients);
    if (best && counted >= least) continue;
    best = gpu.uuid;
    least = counted;
  }
  if (best) return *best;
  if (core_.whole_gpus().gpus.size() == 1) return core_.whole_gpus().gpus.front().uuid;
  return Fail(ErrorCode::kConflict, "mps: it runs on no GPU",
              "gpuman mps start --gpu 0, or name a GPU with --gpu");
}

void MpsModule::WhenRunning(std::vector<std::string> gpus, std::function<void(base::Result<>)> then) {
  while (!gpus.empty() && manager_->IsRunning(gpus.back())) gpus.pop_back();
  if (gpus.empty()) return then({});
  const auto* const status = core_.guard().Find(gpus.back());
  if (!status) return then(Fail(ErrorCode::kNotFound, "mps: there is no GPU " + gpus.back()));
  const gpu::Gpu gpu = status->gpu;
  if (!manager_->auto_start())
    return then(
        Fail(ErrorCode::kConflict, fmt::format("mps: no MPS of gpuman runs on GPU {}", gpu.index),
             fmt::format("gpuman mps start --gpu {}; or set mps.auto_start in gpumand.toml", gpu.index)));
  gpus.pop_back();
  manager_->Start(
      gpu, {},
      [this, gpus = std::move(gpus), then = std::move(then)](base::Result<MpsManager::Notes> started) {
        if (!started) return then(Fail(std::move(started.error()).In("starting MPS")));
        WhenRunning(gpus, then);
      });
}

}  // namespace gpuman::daemon
