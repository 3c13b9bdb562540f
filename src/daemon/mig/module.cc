#include "daemon/mig/module.h"

#include <fmt/format.h>

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <utility>

#include "daemon/mps/module.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

constexpr std::chrono::milliseconds kMigPollInterval{20};
constexpr int kPollsPerSample = 25;

}  // namespace

MigModule::MigModule(Core& core, SuspensionModule& suspension, MpsModule& mps)
    : core_(core),
      suspension_(suspension),
      mps_(mps),
      manager_(
          core, [this] { return suspension_.OwnPids(); }, [this] { OnSplit(); }) {}

void MigModule::Restore(jobs::StoreContents& contents) {
  manager_.Recall(contents.settings);
  Reconfigure();
}

void MigModule::Reconfigure() { manager_.SetPeriod(core_.config().mig.check); }

bool MigModule::IsReady() const { return manager_.has_looked(); }

bool MigModule::Stop() { return manager_.Stop(); }

void MigModule::OnInventory() { manager_.OnInventory(); }

void MigModule::OnSplit() {
  core_.SampleNow();
  on_split();
  core_.sampling().BecomeReadyIfKnown();
}

MigHolders MigModule::Holders() const {
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
  // MPS's control daemon serves a whole GPU, and shows no process there before the first client comes.
  for (const auto& [uuid, unit] : mps_.manager().units()) {
    const auto* const status = core_.guard().Find(uuid);
    if (!status) continue;
    auto& who = holders[uuid];
    who += fmt::format("{}MPS is on (gpuman mps stop --gpu {})", who.empty() ? "" : ", ", status->gpu.index);
  }
  return holders;
}

OwnProcesses MigModule::Own() {
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

// The sampler is asked to look at once. After some seconds `then` is called anyway: the sampler will see the
// divisions later.
void MigModule::WhenDivided(std::vector<ExpectedDivision> divisions, std::function<void()> then, int polls) {
  if (polls == 0 || IsDivided(divisions, core_.inventory())) return then();
  if (polls % kPollsPerSample == 0) core_.SampleNow();
  const auto timer =
      std::make_shared<boost::asio::steady_timer>(core_.loop(), kMigPollInterval);  // kept by its wait
  timer->async_wait([this, timer, divisions = std::move(divisions), then = std::move(then),
                     polls](boost::system::error_code error) mutable {
    if (!error) WhenDivided(std::move(divisions), std::move(then), polls - 1);
  });
}

}  // namespace gpuman::daemon
