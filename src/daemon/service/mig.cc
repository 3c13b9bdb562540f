// MIG: what was asked for is kept in the store, and what becomes of it is told.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "daemon/mig/views.h"
#include "daemon/service/service.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{20};
constexpr int kLooksPerPoke = 25;

}  // namespace

void Service::BeginMig(const jobs::SettingRows& settings) {
  MigHost& host = *this;
  mig_ = std::make_unique<MigManager>(core_.loop(), host);
  mig_->Recall(settings);
  mig_->SetPeriod(core_.config().mig.check);
}

void Service::KeepMig(jobs::SettingRows entries, std::function<void(base::Result<>)> done) {
  jobs::Batch batch;
  batch.settings = std::move(entries);
  core_.store().Submit(std::move(batch), std::move(done));
}

MigHolders Service::MigHoldersNow() const {
  MigHolders holders;
  for (const auto* const job : core_.jobs().Active()) {
    if (jobs::IsWaiting(*job) || jobs::IsEnded(*job)) continue;
    for (const auto& uuid : job->gpus) {
      const auto* const status = core_.guard().Find(uuid);
      auto& who = holders[uuid];
      who += fmt::format("{}job {} '{}' has GPU {}", who.empty() ? "" : ", ", job->id.value, job->tag,
                         status ? gpu::NumberOf(status->gpu) : uuid);
    }
  }
  // Its daemon serves a whole GPU, and has nothing there before the first client comes.
  for (const auto& [uuid, unit] : mps_->units()) {
    const auto* const status = core_.guard().Find(uuid);
    if (!status) continue;
    auto& who = holders[uuid];
    who += fmt::format("{}MPS is on (gpuman mps stop --gpu {})", who.empty() ? "" : ", ", status->gpu.index);
  }
  return holders;
}

OwnProcesses Service::OwnProcessesNow() {
  const auto job_of = [this](pid_t pid) {
    const auto job = core_.guard().JobOf(pid).job;
    return job ? core_.jobs().Find(*job) : nullptr;
  };
  OwnProcesses own{suspension_.OwnPids(), suspension_.controller().movers().IdleMoverPids(), job_of};
  const auto staying = suspension_.controller().movers().MoverPids();
  for (const auto pid : own.all)
    if (!staying.contains(pid)) own.idle.insert(pid);
  return own;
}

// The sampler looks at once; what it does not see in some seconds it will see later.
void Service::WhenDivided(std::vector<MigDivision> divisions, std::function<void()> then, int looks) {
  if (looks == 0 || IsDivided(divisions, core_.inventory())) return then();
  if (looks % kLooksPerPoke == 0) core_.LookNow();
  const auto timer =
      std::make_shared<boost::asio::steady_timer>(core_.loop(), kBetweenLooks);  // kept by its wait
  timer->async_wait([this, timer, divisions = std::move(divisions), then = std::move(then),
                     looks](boost::system::error_code error) mutable {
    if (!error) WhenDivided(std::move(divisions), std::move(then), looks - 1);
  });
}

void Service::OnSplit() {
  core_.LookNow();
  if (dispatcher_) dispatcher_->OnInventory();
  core_.sampling().BecomeReadyIfKnown();
}

void Service::TellMig(const gpu::Gpu& gpu, const char* kind, const std::string& text) {
  jobs::Event event;
  event.at = core_.clock().Wall();
  event.kind = kind;
  event.gpu = gpu.uuid;
  event.message = fmt::format("GPU {}: {}", gpu.index, text);
  spdlog::info("{}: {}", kind, event.message);
  core_.events().Add(std::move(event));
}

}  // namespace gpuman::daemon
