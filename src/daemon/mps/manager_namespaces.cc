// Protocol 3 of MPS: the servers and namespaces that jobs need.
#include <algorithm>
#include <memory>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/mps/manager.h"

namespace gpuman::daemon {

using base::ErrorCode;
using base::Fail;
using base::Result;

namespace {

// A smaller limit would be written as none.
constexpr base::Bytes kLowest = base::MiB(1);

// `whole`: the GPU's memory; 0: not known. Memory in managed memory is more than the GPU has on purpose.
mps::ClientJob ClientJobOf(const jobs::Job& job, base::Bytes whole) {
  mps::ClientJob client{job.id, job.owner->uid, {job.spec->mps_threads, {}}, {}};
  if (job.spec->memory && !job.spec->oversubscribe && whole.count != 0)
    client.limits.memory = std::max(job.spec->memory->Of(whole), kLowest);
  if (job.spec->compute) client.time_slice = job.spec->compute->percent;
  return client;
}

bool IsClientOn(const jobs::Job& job, const std::string& uuid) {
  return job.spec->mps && !job.attached && job.gpus == std::vector{uuid};
}

}  // namespace

mps::WantedOnGpu MpsManager::WantedOn(const std::string& uuid) const {
  mps::WantedOnGpu wanted;
  if (const auto it = units_.find(uuid); it != units_.end()) wanted.limits = it->second.record.limits;
  if (const auto* const status = core_.guard().Find(uuid)) wanted.whole = status->gpu.memory;
  for (const auto* const job : core_.jobs().Active())
    if (!jobs::IsWaiting(*job) && IsClientOn(*job, uuid))
      wanted.jobs.push_back(ClientJobOf(*job, wanted.whole));
  return wanted;
}

std::optional<mps::MpsNamespacePlacement> MpsManager::PlacementFor(const jobs::Job& job) const {
  if (job.gpus.size() != 1 || !IsClientOn(job, job.gpus.front())) return std::nullopt;
  const auto it = units_.find(job.gpus.front());
  if (it == units_.end() || it->second.state != MpsState::kRunning || it->second.record.protocol != 3)
    return std::nullopt;
  const auto* const status = core_.guard().Find(job.gpus.front());
  return mps::PlacementOf(ClientJobOf(job, status ? status->gpu.memory : base::Bytes{}),
                          it->second.record.limits);
}

void MpsManager::Prepare(const jobs::Job& job, std::function<void(Result<>)> ready) {
  if (!PlacementFor(job)) return ready({});
  ApplyLimits(job.gpus.front(),
              [job = job.id, ready = std::move(ready)](const Result<mps::AppliedLimits>& applied,
                                                       const mps::WantedOnGpu& wanted) {
                if (!applied) return ready(Fail(applied.error()));
                const auto it = std::find_if(wanted.jobs.begin(), wanted.jobs.end(),
                                             [&](const mps::ClientJob& each) { return each.id == job; });
                if (it == wanted.jobs.end()) return ready({});  // it has ended before its start
                const auto placement = mps::PlacementOf(*it, wanted.limits);
                if (const auto why = mps::WhyNotThere(*applied, placement); !why.empty())
                  return ready(Fail(ErrorCode::kUnavailable, why));
                ready({});
              });
}

void MpsManager::ApplyLimits(const std::string& uuid, const WhenApplied& then) {
  auto wanted = std::make_shared<const mps::WantedOnGpu>(WantedOn(uuid));  // for worker and loop
  const auto control = MakeControl(3);
  if (!control) return then(Fail(control.error()), *wanted);
  const auto applied = std::make_shared<Result<mps::AppliedLimits>>();  // worker to loop
  Aside([control = *control, uuid, wanted, applied] { *applied = control->ApplyLimits(uuid, *wanted); },
        [this, uuid, wanted, applied, then] {
          OnApplied(uuid, *applied);
          then(*applied, *wanted);
        });
}

void MpsManager::OnApplied(const std::string& uuid, const Result<mps::AppliedLimits>& applied) {
  const auto it = units_.find(uuid);
  if (it == units_.end() || it->second.record.protocol != 3) return;
  MpsUnit& unit = it->second;
  unit.apply_error = applied ? mps::Describe(applied->problems) : applied.error().message;
  if (!applied) return;
  unit.there = applied->servers;
  for (const auto& server : applied->deleted) unit.watch.Forget(server);
}

void MpsManager::ApplyWhatChanged() {
  for (auto& [uuid, unit] : units_) {
    if (unit.state != MpsState::kRunning || unit.record.protocol != 3) continue;
    if (mps::ChangesFor(unit.there, WantedOn(uuid)).empty()) continue;
    unit.apply_again = unit.settling;
    if (std::exchange(unit.settling, true)) continue;
    ApplyLimits(uuid, [this, uuid = uuid](const Result<mps::AppliedLimits>&, const mps::WantedOnGpu&) {
      const auto it = units_.find(uuid);
      if (it == units_.end()) return;
      it->second.settling = false;
      if (std::exchange(it->second.apply_again, false)) ApplyWhatChanged();
    });
  }
}

}  // namespace gpuman::daemon
