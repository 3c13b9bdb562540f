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
          std::make_unique<MpsManager>(core, core.config().socket.parent_path() / "mps", base::BootId())),
      readers_([this](std::vector<Reader> readers, std::function<void()> done) {
        manager_->Refresh([this, readers = std::move(readers), done = std::move(done)] {
          const auto report = MpsReportOf(*manager_, Context(), {});
          for (const auto& reader : readers)
            if (!base::IsCancelled(reader)) reader.take(report);
          done();
        });
      }) {
  core_.jobs().callbacks().mps_variables = [this](const jobs::Job& job) { return VariablesOf(job); };
  core_.jobs().callbacks().before_start = [this](const jobs::Job& job, std::function<void()> then) {
    BeforeStart(job, std::move(then));
  };
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

void MpsModule::TellMissing(const jobs::Job& job, const std::string& why) const {
  core_.AddJobEvent(job, {"mps_missing", fmt::format("job {} '{}': {}", job.id.value, job.tag, why), {}});
}

std::vector<std::string> MpsModule::VariablesOf(const jobs::Job& job) const {
  if (!job.spec->mps || job.gpus.size() != 1) return {};
  auto threads = job.spec->mps_threads;
  auto directories = manager_->DirectoriesFor(job.gpus.front());
  if (!manager_->IsRunning(job.gpus.front()))
    TellMissing(job,
                "MPS does not run on its GPU: without a server it runs beside the others there, unlimited");
  if (const auto placement = manager_->PlacementFor(job)) {
    auto inner = mps::DirectoriesIn(directories, placement->server, placement->name_space);
    if (inner) {
      directories = std::move(*inner);
      threads.reset();  // the namespace has the limit
    } else {
      TellMissing(job, "it gets no namespace of its own in MPS: " + inner.error().message);
    }
  } else if (job.spec->compute && manager_->IsRunning(job.gpus.front())) {
    TellMissing(job,
                "the MPS of its GPU gives no shares of the time: it runs beside the others as one of them");
  }
  std::vector<std::string> variables;
  for (const auto& [name, value] : mps::ClientVariables(directories, threads))
    variables.push_back(fmt::format("{}={}", name, value));
  return variables;
}

void MpsModule::BeforeStart(const jobs::Job& job, std::function<void()> then) {
  if (!job.spec->mps || !manager_) return then();
  manager_->Prepare(job, [this, id = job.id, then = std::move(then)](const base::Result<>& ready) {
    const auto* const now = core_.jobs().Find(id);
    if (!ready && now)
      TellMissing(*now, fmt::format("it has no namespace in MPS, so it runs beside the others there, "
                                    "unlimited: {}",
                                    ready.error().message));
    then();
  });
}

void MpsModule::OnJobLeft(base::JobId job, UnwatchReason /*why*/) {
  const auto* const left = core_.jobs().Find(job);
  if (!left || left->spec->mps) manager_->ApplyWhatChanged();
}

base::Result<> MpsModule::MayHaveShares(const std::string& gpu) const {
  const auto it = manager_->units().find(gpu);
  const auto* const status = core_.guard().Find(gpu);
  const auto name = status ? std::to_string(status->gpu.index) : gpu;
  if (it == manager_->units().end() || it->second.state != MpsState::kRunning) {
    if (manager_->auto_start()) return {};
    return Fail(ErrorCode::kConflict, fmt::format("mps: no MPS of gpuman runs on GPU {}", name),
                fmt::format("gpuman mps start --gpu {}; a share of its time takes driver 620, --mps-threads "
                            "gives a part of its processors",
                            name));
  }
  const auto& record = it->second.record;
  if (record.time_slices) return {};
  return Fail(ErrorCode::kNotSupported,
              fmt::format("compute: the MPS of GPU {} gives no shares of its time: servers have them from "
                          "driver 620 on, by protocol 3, and this one {}",
                          name, record.protocol == 3 ? "does not know them" : "was started by protocol 2"),
              "give --mps-threads for a part of its processors, or leave out --mps");
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
