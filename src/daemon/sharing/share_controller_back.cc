// Memory of shared jobs on its way back: the mover loads it as room is granted.
#include <algorithm>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/sharing/share_controller.h"
#include "daemon/shims/slot_state.h"

namespace gpuman::daemon {
namespace {

using suspend::MoverAnswer;
using suspend::Outcome;
using suspend::Verb;

constexpr int kMaxTries = 50;
constexpr base::Millis kRetry{100};

}  // namespace

void ShareController::Bring(Entry& entry, share::OrderId order) {
  Restore& restore = entry.restore.emplace(Restore{});
  restore.order = order;
  for (const auto& one : shims_.SlotStatusesOf(entry.job.id)) {
    const auto homes = HomesOf(one, entry.job.gpus);
    for (const auto& home : homes) {
      const ProcessGpu key{one.process, home.uuid};
      if (home.evicted.count == 0 || entry.loaded.contains(key)) continue;
      restore.loads[key] = {.source = SourceName(homes, home), .need = home.evicted};
    }
  }
  if (restore.loads.empty()) return EndRestore(entry);
  suspension_.PrepareMovers();  // copies of what comes back may be kept
  for (const auto& [key, load] : restore.loads) StartLoad(entry.job.id, key, {});
}

void ShareController::StartLoad(base::JobId job, const ProcessGpu& key, base::Bytes room) {
  const Entry& entry = entries_.at(job);
  const auto order = entry.restore->order;
  movers_.Move(entry.job.owner,
               {.verb = Verb::kLoad,
                .process = key.process,
                .source = entry.restore->loads.at(key).source,
                .room = room},
               {}, IfHere([job, key, order](ShareController& me, const MoverAnswer& answer) {
                 me.LoadEnded(job, key, order, answer);
               }),
               IfHere([job, key, order](ShareController& me, const MoverAnswer& notice) {
                 if (notice.outcome == Outcome::kMoving)
                   me.LoadCame(job, key, order, notice.bytes, notice.bytes - notice.unchanged);
               }));
}

void ShareController::LoadCame(base::JobId job, const ProcessGpu& key, share::OrderId order,
                               base::Bytes bytes, base::Bytes copied) {
  Entry* const entry = Find(job);
  if (!entry || !entry->restore || entry->restore->order != order || entry->restore->stopping) return;
  Load& load = entry->restore->loads.at(key);
  load.copied += copied;
  const base::Bytes told = std::min(load.again, bytes);
  load.again = load.again - told;
  bytes = std::min(bytes - told, load.need - load.came);
  if (bytes.count == 0) return;
  load.came += bytes;
  Feed(share::event::MovedIn{job, key.gpu, bytes, bytes - copied});
}

void ShareController::LoadEnded(base::JobId job, const ProcessGpu& key, share::OrderId order,
                                const MoverAnswer& answer) {
  Entry* const entry = Find(job);
  if (!entry || !entry->restore || entry->restore->order != order || entry->restore->stopping) return;
  Load& load = entry->restore->loads.at(key);
  const bool over = !base::IsAlive(key.process);
  if (answer.outcome == Outcome::kDone) {
    // The part not told yet; memory that was on the GPU already was not copied.
    LoadCame(job, key, order, load.need + load.again, answer.bytes - answer.unchanged - load.copied);
    entry->loaded[key] = load.need;
  } else if (!over && (answer.outcome == Outcome::kLost || answer.outcome == Outcome::kNoRoom) &&
             ++load.tries < kMaxTries) {
    // The mover died, or other jobs are just giving up the memory.
    return TryAgain(job, key, order);
  } else if (!over) {
    return StopBring(*entry, answer.message);
  }
  load.done = true;
  const auto& loads = entry->restore->loads;
  if (std::all_of(loads.begin(), loads.end(), [](const auto& one) { return one.second.done; }))
    EndRestore(*entry);
}

void ShareController::TryAgain(base::JobId job, const ProcessGpu& key, share::OrderId order) {
  const auto timer = std::make_shared<boost::asio::steady_timer>(core_.loop());
  timer->expires_after(kRetry);
  timer->async_wait(IfHere([timer, job, key, order](ShareController& me, const boost::system::error_code&) {
    const Entry* const entry = me.Find(job);
    if (!entry || !entry->restore || entry->restore->order != order || entry->restore->stopping) return;
    Load& load = me.entries_.at(job).restore->loads.at(key);
    load.again = load.came;
    load.copied = {};
    me.StartLoad(job, key, load.granted);
  }));
}

// The memory that came leaves the GPU again. Host memory still holds all of it.
void ShareController::StopBring(Entry& entry, std::string why) {
  if (!entry.restore || std::exchange(entry.restore->stopping, true)) return;
  Restore& restore = *entry.restore;
  restore.why = std::move(why);
  for (const auto& [key, load] : restore.loads) {
    ++restore.securing;
    entry.loaded.erase(key);
    Secure(entry, key.process, load.source,
           IfHere([job = entry.job.id, order = restore.order](ShareController& me, const MoverAnswer&) {
             Entry* const there = me.Find(job);
             if (!there || !there->restore || there->restore->order != order) return;
             if (--there->restore->securing == 0) me.EndRestore(*there);
           }));
  }
}

void ShareController::EndRestore(Entry& entry) {
  const auto order = entry.restore->order;
  const auto why = std::move(entry.restore->why);
  entry.restore.reset();
  entry.stale = true;
  CheckSoon(entry.job.id);
  Feed(share::event::BringDone{entry.job.id, order, why});
}

void ShareController::GrantRoom(Entry& entry, const share::action::MemoryGrant& grant) {
  if (grant.in_bring) {
    entry.granted[grant.gpu] += grant.bytes;
    base::Bytes left = grant.bytes;
    if (!entry.restore) return;
    for (auto& [key, load] : entry.restore->loads) {
      if (key.gpu != grant.gpu) continue;
      const base::Bytes bytes = std::min(left, load.need - load.granted);
      if (bytes.count == 0) continue;
      load.granted += bytes;
      left = left - bytes;
      movers_.Grant(entry.job.owner, key.process, load.source, bytes);
    }
    return;
  }
  constexpr int kMaxFruitless = 20;
  const base::Bytes counted = CountedOf(entry.job.id, grant.gpu);
  entry.fruitless = counted == entry.counted_at_grant ? entry.fruitless + 1 : 0;
  entry.counted_at_grant = counted;
  // The driver has less free memory than the figures say.
  if (entry.fruitless > kMaxFruitless) entry.denied = MostWanted(entry);
  entry.promised[grant.gpu] = {grant.bytes, counted};
  entry.wants_fell.reset();
  entry.deny_at.reset();
  entry.offer = true;
}

}  // namespace gpuman::daemon
