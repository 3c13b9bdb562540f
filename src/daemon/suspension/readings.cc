#include "daemon/suspension/readings.h"

#include <algorithm>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/shims/module.h"
#include "daemon/shims/process_stop.h"
#include "daemon/shims/slot_state.h"
#include "daemon/suspension/suspension_views.h"
#include "suspend/state_machine.h"
#include "suspend/would_stay.h"

namespace gpuman::daemon {
namespace {

// The driver's checkpoint moves less than this as fast.
const base::Bytes kWorthPreparing = suspend::SuspensionSettings{}.worth_evicting;

base::Bytes SumOf(const std::vector<EvictableMemory>& memory) {
  base::Bytes sum;
  for (const auto& one : memory) sum += one.bytes;
  return sum;
}

// Where jobs take turns, the mover is started before the first of them has to make room: for so much memory,
// whatever the job has yet.
void AddFirstMemory(EvictableMemory first, std::vector<EvictableMemory>& of_job) {
  constexpr base::Bytes kFirst = base::MiB(256);
  const base::Bytes sum = SumOf(of_job);
  if (sum >= kFirst) return;
  first.bytes = kFirst - sum;
  of_job.push_back(std::move(first));
}

}  // namespace

std::vector<suspend::ObservedProcess> SuspensionReadings::ProcessesOf(
    base::JobId id, const suspend::SuspensionRecord& record) const {
  const auto* job = core_.jobs().Find(id);
  if (!job) return {};
  const auto* const channel = shims_.channel();
  auto views =
      ViewsOf(*job, record, channel ? channel->SlotStatusesOf(id) : std::vector<ledger::SlotStatus>{});
  for (auto& view : views) view.stopped = IsStopped(view.id).has_value();
  return views;
}

std::vector<suspend::ObservedProcess> SuspensionReadings::ViewsOf(
    const jobs::Job& job, const suspend::SuspensionRecord& record,
    const std::vector<ledger::SlotStatus>& slots) const {
  auto held = record.held;
  std::erase_if(held, [](const auto& entry) { return !base::IsAlive(entry.first); });
  return SuspensionView(job.id, core_.guard().Statuses(), slots, held,
                        job.gpus.empty() ? core_.AllGpus() : job.gpus,
                        [this](const std::string& gpu) { return ContextCostOf(gpu); });
}

// Asked of every job after every sample, so jobs of which nothing can stay cost only a look at their ledger.
suspend::BytesByGpu SuspensionReadings::WouldStay(base::JobId id, std::optional<bool> checkpoints) const {
  const auto* const job = core_.jobs().Find(id);
  const auto* const channel = shims_.channel();
  if (!job || !channel) return {};
  const auto slots = channel->SlotStatusesOf(id);
  const bool shares = std::any_of(slots.begin(), slots.end(), [](const auto& slot) { return slot.shares; });
  if (checkpoints != false && !shares) return {};
  return suspend::WouldStay(ViewsOf(*job, {}, slots), checkpoints);
}

std::vector<suspend::ObservedGpu> SuspensionReadings::Gpus() const {
  std::vector<suspend::ObservedGpu> gpus;
  for (const auto& gpu : core_.whole_gpus().gpus) gpus.push_back({gpu.uuid, gpu.name, gpu.index});
  return gpus;
}

suspend::BytesByGpu SuspensionReadings::FreeMemory() const {
  suspend::BytesByGpu free;
  for (const auto& [uuid, status] : core_.guard().Statuses()) {
    if (!status.sample.memory) continue;
    const base::Bytes reserve = core_.guard().ReserveOf(uuid);
    const base::Bytes there = core_.guard().FreeOf(uuid);
    free[uuid] = there > reserve ? there - reserve : base::Bytes{};
  }
  return free;
}

std::map<std::string, base::MonoTime> SuspensionReadings::SampledAt() const {
  std::map<std::string, base::MonoTime> times;
  for (const auto& [uuid, status] : core_.guard().Statuses()) times[uuid] = status.sample.taken_at;
  return times;
}

std::optional<suspend::MoverUser> SuspensionReadings::OwnerOf(base::JobId id) const {
  const auto* job = core_.jobs().Find(id);
  if (!job) return std::nullopt;
  suspend::MoverUser owner{job->owner->uid, job->owner->gid, job->owner->groups};
  // All containers are jobs of root, but only containers of the same namespace trust each other.
  if (job->container) owner.trust = "kubernetes namespace " + job->container->name_space;
  const auto gpus = job->gpus.empty() && !job->queued ? core_.AllGpus() : job->gpus;
  if (gpus.size() == 1 && gpu::IsInstance(gpus.front())) owner.instance = gpus.front();
  return owner;
}

std::vector<EvictableMemory> SuspensionReadings::EvictableMemoryOfJobs() const {
  std::vector<EvictableMemory> all;
  const auto* const channel = shims_.channel();
  if (!channel) return all;
  const auto jobs = core_.jobs().Active();
  const bool several_share = std::count_if(jobs.begin(), jobs.end(), [](const jobs::Job* job) {
                               return job->spec->share && job->state == spec::JobState::kRunning;
                             }) > 1;
  for (const auto* const job : jobs) {
    if (job->state != spec::JobState::kRunning || !channel->Has(job->id)) continue;
    const auto owner = OwnerOf(job->id);
    if (!owner) continue;
    std::vector<EvictableMemory> of_job;
    for (const auto& slot : channel->SlotStatusesOf(job->id))
      for (const auto& home : HomesOf(slot, job->gpus))
        if (const base::Bytes bytes = home.evictable + home.evicted; bytes.count != 0)
          of_job.push_back({job->id, *owner, home.uuid, bytes});
    if (several_share && job->spec->share)
      AddFirstMemory({job->id, *owner, job->gpus.empty() ? std::string() : job->gpus.front(), {}}, of_job);
    if (SumOf(of_job) > kWorthPreparing) all.insert(all.end(), of_job.begin(), of_job.end());
  }
  return all;
}

base::Bytes SuspensionReadings::ContextCostOf(const std::string& gpu) const {
  return shims_.ContextCostOf(gpu);
}

int SuspensionReadings::PriorityOf(base::JobId id) const {
  const auto* job = core_.jobs().Find(id);
  return job ? job->spec->priority : 0;
}

base::Bytes SuspensionReadings::HostMemoryOf(base::JobId job) const { return shims_.HostMemoryOf(job); }

}  // namespace gpuman::daemon
