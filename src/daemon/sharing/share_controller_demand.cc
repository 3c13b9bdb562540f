// The memory that shared jobs have and want on their GPUs.
#include <algorithm>
#include <utility>

#include "daemon/sharing/share_controller.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::MemoryResidency;

// The longest time that an allocation waits for its turn.
constexpr base::Millis kRoomPatience{600'000};
// Shims report pauses of this length. The scheduler decides how long a pause must be to end a turn.
constexpr base::Millis kReportedPause{20};

// How much a job may have in flight while another one, whose work goes first, may come at any moment.
constexpr std::chrono::microseconds kPace{400};

bool MayUse(const SharedJob& job, const std::string& gpu) {
  return std::find(job.gpus.begin(), job.gpus.end(), gpu) != job.gpus.end();
}

bool IsMoving(const ledger::SlotStatus& one) {
  return one.residency == MemoryResidency::kEvicting || one.residency == MemoryResidency::kRestoring;
}

}  // namespace

base::Bytes ShareController::CountedOf(base::JobId job, const std::string& gpu) const {
  for (const auto& one : shims_.UsageOf(job))
    if (one.uuid == gpu) return one.used;
  return {};
}

share::MemoryDemands ShareController::DemandOf(const Entry& entry,
                                               const std::vector<ledger::SlotStatus>& slots) const {
  const base::JobId job = entry.job.id;
  return daemon::DemandOf(
      slots, entry.job.gpus,
      {.at_work = entry.at_work,
       .loaded = [&](const ProcessGpu& of) { return restores_.LoadedOf(job, of); },
       .uncounted = [&](const std::string& gpu) { return shims_.UncountedOf(job, gpu); },
       .context = [&](const std::string& gpu) { return suspension_.readings().ContextCostOf(gpu); }});
}

void ShareController::GrantRoom(Entry& entry, const share::action::MemoryGrant& grant) {
  if (grant.for_restore) {
    entry.granted[grant.gpu] += grant.bytes;
    return restores_.Grant(entry.job.id, grant.gpu, grant.bytes);
  }
  entry.room.Promise(grant.gpu, grant.bytes, CountedOf(entry.job.id, grant.gpu), MostWanted(entry));
}

void ShareController::CheckDemand(Entry& entry, const std::vector<ledger::SlotStatus>& slots) {
  // A daemon that is new takes over jobs before it knows the GPUs. What came back then would be the memory of
  // one GPU alone.
  if (!shims_.KnowsGpusOf(entry.job.id)) return;
  const auto gone = [&](const base::ProcessId& process) {
    return std::none_of(slots.begin(), slots.end(),
                        [&](const ledger::SlotStatus& there) { return there.process == process; });
  };
  restores_.ForgetLoaded(entry.job.id, gone);
  auto demand = DemandOf(entry, slots);
  entry.pinned.Apply(demand, entry.open, clock_.Mono());
  const auto counted = [&](const std::string& gpu) { return CountedOf(entry.job.id, gpu); };
  auto taken = entry.room.Check(demand, entry.demand, counted, entry.open, clock_.Mono());
  if (std::any_of(slots.begin(), slots.end(), IsMoving)) return;
  if (!entry.stale && demand == entry.demand && taken.empty()) return;
  entry.room.OnDemand(demand, entry.demand, taken);
  if (!restores_.IsUnderWay(entry.job.id)) entry.granted.clear();
  entry.stale = false;
  entry.demand = demand;
  Feed(share::event::DemandChanged{entry.job.id, std::move(demand), std::move(taken)});
}

void ShareController::Check(Entry& entry) {
  if (entry.mode != Entry::Mode::kWithdrawn && clock_.Mono() >= entry.answers_at) CheckAnswers(entry);
  CheckOrders(entry);
  if (entry.mode != Entry::Mode::kShared) return;
  const auto slots = shims_.SlotStatusesOf(entry.job.id);
  CheckDemand(entry, slots);
  TellActivity(entry, slots);
  if (entry.room.TakeDueDenial(clock_.Mono()) && scheduler_.IsDenied(entry.job.id))
    entry.room.Deny(MostWanted(entry));
  if (entry.room.MustTellShims()) TellRoom();
}

// The most that a single process wants on one GPU. That process gives up its allocation, and then the others
// may find room.
base::Bytes ShareController::MostWanted(const Entry& entry) const {
  base::Bytes most;
  for (const auto& one : shims_.SlotStatusesOf(entry.job.id))
    for (const auto& home : one.homes) most = std::max(most, home.wants);
  return most;
}

void ShareController::TellActivity(Entry& entry, const std::vector<ledger::SlotStatus>& slots) {
  const auto [activity, since] = ActivityOf(slots);
  if (const std::uint64_t completed = entry.completed.Count(slots); completed > 0)
    Feed(share::event::Completed{entry.job.id, completed});
  if (activity == entry.activity) return;
  entry.activity = activity;
  const base::MonoTime when = since == 0 ? clock_.Mono() : base::MonoTime(std::chrono::nanoseconds(since));
  Feed(share::event::ActivityChanged{entry.job.id, activity, when});
}

// Every job may take free memory within its share of the GPU without asking. There are as many shares as jobs
// that run there; one more for a job that has nothing there yet, and may come.
void ShareController::TellRoom() {
  for (const auto& [gpu, capacity] : capacity_.capacities()) {
    base::Bytes used;
    std::uint64_t open = 0;
    for (const auto& [id, entry] : entries_) {
      const auto part = entry.demand.find(gpu);
      if (entry.mode == Entry::Mode::kWithdrawn || part == entry.demand.end()) continue;
      // Memory that the job has taken of its share since its last check counts, too.
      const bool works = (entry.open || entry.close) && scheduler_.settings().managed_turns;
      const base::Bytes gone = part->second.away + (works ? base::Bytes{} : part->second.managed);
      const base::Bytes counted = shims_.UncountedOf(id, gpu) + CountedOf(id, gpu) - gone;
      used += std::max(
          part->second.resident + part->second.pinned + (works ? part->second.managed : base::Bytes{}),
          counted);
      if (const auto more = entry.granted.find(gpu); more != entry.granted.end()) used += more->second;
      used += entry.room.PromisedOn(gpu);
      open += entry.open ? 1 : 0;
    }
    const std::uint64_t free = (capacity - used).count;
    for (auto& [id, entry] : entries_) {
      const bool comes = !entry.demand.contains(gpu);
      if (entry.mode == Entry::Mode::kWithdrawn || (comes && !MayUse(entry.job, gpu))) continue;
      if (entry.job.oversubscribes) {
        shims_.SetRoom(id, gpu, std::nullopt);
        continue;
      }
      const base::Bytes share{entry.open ? free / (open + (comes ? 1 : 0)) : 0};
      const base::Bytes more = share + entry.room.PromisedOn(gpu);
      shims_.SetRoom(id, gpu, shims_.UncountedOf(id, gpu) + CountedOf(id, gpu) + more);
    }
  }
  for (auto& [id, entry] : entries_)
    if (entry.mode != Entry::Mode::kWithdrawn) TellSharing(entry);
}

void ShareController::TellSharing(Entry& entry) {
  const auto& gpus = entry.job.gpus;
  const bool contended =
      std::any_of(gpus.begin(), gpus.end(), [this](const auto& gpu) { return scheduler_.IsContended(gpu); });
  const auto watch = scheduler_.WatchOf(entry.job.id);
  const base::Millis idle = std::min(kReportedPause, std::chrono::ceil<base::Millis>(watch.idle));
  const ledger::SharingSettings sharing{
      .watched = contended ? idle : base::Millis(0),
      .room_patience = kRoomPatience,
      .denied = entry.room.denied(),
      .pace = contended && watch.paced ? kPace : std::chrono::microseconds(0),
      // After so long without work it is idle, and tells of its next call at once.
      .alert = contended && entry.job.options.latency
                   ? std::chrono::duration_cast<std::chrono::microseconds>(watch.idle)
                   : std::chrono::microseconds(0),
  };
  if (entry.sent != sharing) {
    entry.room.OnSettingsChanged();
    entry.sent = sharing;
    shims_.SetSharing(entry.job.id, sharing);
  }
  if (entry.room.TakeOffer(clock_.Mono())) shims_.OfferRoom(entry.job.id);
}

}  // namespace gpuman::daemon
