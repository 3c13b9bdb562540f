// Memory of shared jobs on its way out.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/sharing/share_controller.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::OrderKind;
using suspend::Answer;
using suspend::Outcome;
using suspend::Verb;

// How often at most a move is begun anew after its mover died.
constexpr int kMaxLosses = 5;

// Why a process's memory has not moved; empty: it has moved, or the process has ended.
std::string WhyNot(const base::ProcessId& process, const Answer& answer) {
  return answer.outcome == Outcome::kDone || !base::IsAlive(process) ? std::string() : answer.message;
}

}  // namespace

// First evicts memory that a mover has loaded, then memory of the processes that have most. An order says "at
// least so many bytes"; the shim chooses the pieces.
void ShareController::Evict(Entry& entry, const share::action::Evict& order) {
  const auto id = entry.job.id;
  const bool holds = order.bytes <= HostMemoryLeft();
  Evicting& evicting = entry.evicting[order.gpu] = {.order = order.order};
  if (!holds) {
    evicting.why =
        fmt::format("{} more do not fit into what jobs may keep in host memory (suspend.host_memory)",
                    base::FormatBytes(order.bytes));
    return EndEvicting(entry, order.gpu);
  }
  evicting.host = shims_.HostMemoryOf(id) + order.bytes;
  auto slots = shims_.SlotStatusesOf(id);
  std::sort(slots.begin(), slots.end(), [](const auto& a, const auto& b) {
    return std::pair(b.evictable, a.process) < std::pair(a.evictable, b.process);
  });
  base::Bytes left = order.bytes;
  for (const auto& one : slots) {
    const auto loaded = entry.loaded.find(one.process);
    if (loaded == entry.loaded.end() || GpuOf(entry, one) != order.gpu || left.count == 0) continue;
    const base::Bytes bytes = std::min(loaded->second, one.evicted);
    left = left - bytes;
    entry.loaded.erase(loaded);
    if (bytes.count == 0) continue;  // the process has taken it since
    ++evicting.moving;
    Secure(entry, one.process,
           IfHere([id, process = one.process, gpu = order.gpu, number = order.order, bytes](
                      ShareController& me, const Answer&) {
             me.Feed(share::event::MovedOut{id, gpu, bytes});
             me.TakeEnded(id, process, gpu, number, {});
           }));
  }
  for (const auto& one : slots) {
    if (left.count == 0) break;
    if (one.evictable.count == 0 || GpuOf(entry, one) != order.gpu) continue;
    const base::Bytes bytes = std::min(left, one.evictable);
    left = left - bytes;
    entry.ordered = clock_.Mono();
    const auto ordered = Order(id, one.process, {OrderKind::kTake, one.evicted + bytes});
    if (ordered)
      evicting.ordered.insert(one.process);
    else if (base::IsAlive(one.process))
      evicting.why = ordered.error().message;
  }
  if (evicting.ordered.empty() && evicting.moving == 0) EndEvicting(entry, order.gpu);
}

base::Bytes ShareController::HostMemoryUnused() const {
  const auto memory = suspend::ReadHostMemory();
  if (!memory) return base::Bytes{UINT64_MAX};
  base::Bytes used;
  for (const auto* const job : core_.jobs().Active()) {
    base::Bytes held;  // of a suspended job, including its checkpoint
    const auto* const record = suspension_.RecordOf(job->id);
    if (record && record->phase != suspend::SuspensionPhase::kRunning)
      for (const auto& [process, gpus] : record->held)
        for (const auto& [gpu, bytes] : gpus) held += bytes;
    used += std::max(held, shims_.HostMemoryOf(job->id));
  }
  return core_.config().suspend.host_memory.Of(memory->total) - suspend::Believed(*memory, used);
}

// Memory that jobs have been ordered to bring to host memory counts already.
base::Bytes ShareController::HostMemoryLeft() const {
  base::Bytes left = HostMemoryUnused();
  for (const auto& [id, entry] : entries_)
    for (const auto& [gpu, evicting] : entry.evicting)
      left = left - (evicting.host - shims_.HostMemoryOf(id));
  return left;
}

bool ShareController::PassOn(base::JobId job, base::ProcessId process, bool out,
                             base::UntrustedSocket& connection) {
  Entry* const entry = Find(job);
  if (!entry || entry->mode == Entry::Mode::kLent) return false;
  if (out) {
    Take(job, process, std::move(connection));
    return true;
  }
  movers_.Move(entry->job.owner, {.verb = Verb::kGive, .process = process}, std::move(connection),
               IfHere([job](ShareController& me, const Answer&) {
                 if (Entry* const there = me.Find(job)) me.Check(*there);
               }));
  return true;
}

void ShareController::Take(base::JobId job, base::ProcessId process, base::UntrustedSocket connection) {
  Entry& entry = entries_.at(job);
  std::string gpu;
  share::OrderId order = 0;
  for (auto& [uuid, evicting] : entry.evicting) {
    if (!evicting.ordered.contains(process)) continue;
    gpu = uuid;
    order = evicting.order;
    ++evicting.moving;
  }
  struct Course {
    bool taken = false;
    base::Bytes moved;
  };
  const auto course = std::make_shared<Course>();  // state of this transfer, shared by both callbacks
  movers_.Move(entry.job.owner, {.verb = Verb::kTake, .process = process, .whole = true},
               std::move(connection),
               IfHere([job, process, gpu, order, course](ShareController& me, const Answer& answer) {
                 const bool done = answer.outcome == Outcome::kDone;
                 if (done && answer.bytes > course->moved && order != 0)
                   me.Feed(share::event::MovedOut{job, gpu, answer.bytes - course->moved});
                 // The data of memory that the process has given up must reach host memory.
                 if (!done && (course->taken || answer.outcome == Outcome::kLost))
                   return me.GoOn(job, process, gpu, order, 0);
                 me.TakeEnded(job, process, gpu, order, WhyNot(process, answer));
               }),
               IfHere([job, gpu, order, course](ShareController& me, const Answer& notice) {
                 if (notice.outcome == Outcome::kTaken) course->taken = true;
                 if (notice.outcome != Outcome::kMoving || notice.bytes.count == 0) return;
                 course->moved += notice.bytes;
                 if (order != 0) me.Feed(share::event::MovedOut{job, gpu, notice.bytes});
               }));
}

// Has another mover finish a move that a mover has begun.
void ShareController::GoOn(base::JobId job, base::ProcessId process, const std::string& gpu,
                           share::OrderId order, int losses) {
  const Entry* const entry = Find(job);
  if (!entry) return;
  movers_.Move(entry->job.owner, {.verb = Verb::kSecure, .process = process}, {},
               IfHere([job, process, gpu, order, losses](ShareController& me, const Answer& answer) {
                 if (answer.outcome == Outcome::kLost && losses < kMaxLosses && base::IsAlive(process))
                   return me.GoOn(job, process, gpu, order, losses + 1);
                 me.TakeEnded(job, process, gpu, order, WhyNot(process, answer));
               }),
               IfHere([job, gpu, order](ShareController& me, const Answer& notice) {
                 if (notice.outcome == Outcome::kMoving && notice.bytes.count > 0 && order != 0)
                   me.Feed(share::event::MovedOut{job, gpu, notice.bytes});
               }));
}

void ShareController::TakeEnded(base::JobId job, base::ProcessId process, const std::string& gpu,
                                share::OrderId order, const std::string& why) {
  Entry* const entry = Find(job);
  if (!entry) return;
  const auto found = entry->evicting.find(gpu);
  if (found != entry->evicting.end() && found->second.order == order) {
    --found->second.moving;
    if (!why.empty()) found->second.from_movers[process] = why;
  }
  Check(*entry);
}

void ShareController::EndEvicting(Entry& entry, const std::string& gpu) {
  const auto node = entry.evicting.extract(gpu);
  entry.stale = true;
  CheckSoon(entry.job.id);
  Feed(share::event::OutDone{entry.job.id, gpu, node.mapped().order, node.mapped().why});
}

void ShareController::Secure(const Entry& entry, base::ProcessId process, suspend::Checkpointer::Done done) {
  movers_.Move(entry.job.owner, {.verb = Verb::kSecure, .process = process}, {}, std::move(done));
}

}  // namespace gpuman::daemon
