// Memory of shared jobs on its way out.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/sharing/share_controller.h"
#include "daemon/shims/slot_state.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::OrderKind;
using suspend::MoverAnswer;
using suspend::Outcome;
using suspend::Verb;

// How often at most a move is begun anew after its mover died.
constexpr int kMaxLosses = 5;

// Why a process's memory has not moved; empty: it has moved, or the process has ended.
std::string WhyNot(const base::ProcessId& process, const MoverAnswer& answer) {
  return answer.outcome == Outcome::kDone || !base::IsAlive(process) ? std::string() : answer.message;
}

}  // namespace

// First evicts memory that a mover has loaded, then memory of the processes that have most. An order says "at
// least so many bytes"; the shim chooses the pieces.
void ShareController::Evict(Entry& entry, const share::action::Evict& order) {
  const bool holds = order.bytes <= HostMemoryLeft();
  Evicting& evicting = entry.evicting[order.gpu] = {.order = order.order};
  if (!holds) {
    evicting.why =
        fmt::format("{} more do not fit into what jobs may keep in host memory (suspend.host_memory)",
                    base::FormatBytes(order.bytes));
    return EndEvicting(entry, order.gpu);
  }
  evicting.host = shims_.HostMemoryOf(entry.job.id) + order.bytes;
  suspension_.PrepareMovers();  // kept copies give way
  base::Bytes left = order.bytes - SecureLoaded(entry, order);
  std::vector<std::pair<base::ProcessId, ledger::EvictableGpu>> homes;
  for (const auto& one : shims_.SlotStatusesOf(entry.job.id)) {
    if (entry.at_work.contains(one.process)) continue;
    for (const auto& home : HomesOf(one, entry.job.gpus))
      if (home.uuid == order.gpu) homes.emplace_back(one.process, home);
  }
  std::sort(homes.begin(), homes.end(), [](const auto& a, const auto& b) {
    return std::pair(b.second.evictable, a.first) < std::pair(a.second.evictable, b.first);
  });
  for (const auto& [process, home] : homes) {
    const base::Bytes bytes = std::min(left, home.evictable);
    if (bytes.count == 0) break;
    left = left - bytes;
    evicting.ordered[process] = home.evicted + bytes;
    entry.leaving.insert(process);
  }
  if (evicting.ordered.empty() && evicting.moving == 0) EndEvicting(entry, order.gpu);
}

// Returns how much of the memory that the order is about goes back to host memory.
base::Bytes ShareController::SecureLoaded(Entry& entry, const share::action::Evict& order) {
  base::Bytes secured;
  for (const auto& one : shims_.SlotStatusesOf(entry.job.id)) {
    const ProcessGpu key{one.process, order.gpu};
    const auto loaded = entry.loaded.find(key);
    if (loaded == entry.loaded.end() || secured >= order.bytes) continue;
    base::Bytes bytes;  // 0: the process has taken it since
    std::string name;
    const auto homes = HomesOf(one, entry.job.gpus);
    for (const auto& home : homes) {
      if (home.uuid != order.gpu) continue;
      bytes = std::min(loaded->second, home.evicted);
      name = SourceName(homes, home);
    }
    entry.loaded.erase(loaded);
    if (bytes.count == 0) continue;
    secured += bytes;
    ++entry.evicting.at(order.gpu).moving;
    Secure(entry, one.process, name,
           IfHere([id = entry.job.id, key, number = order.order, bytes](ShareController& me,
                                                                        const MoverAnswer& answer) {
             // What came from host memory is there still, and goes without a copy.
             const base::Bytes copied = answer.bytes - answer.unchanged;
             me.Feed(share::event::MovedOut{id, key.gpu, bytes, bytes - copied});
             me.TransferEnded(id, key, number, {});
           }));
  }
  return secured;
}

// One order for each process, for all GPUs that it has not left yet.
void ShareController::OrderToLeave(Entry& entry) {
  for (const auto& process : std::exchange(entry.leaving, {})) {
    ledger::ProcessOrder take{OrderKind::kTake, {}};
    for (const auto& [gpu, evicting] : entry.evicting)
      if (const auto its = evicting.ordered.find(process); its != evicting.ordered.end())
        take.away[gpu] = its->second;
    entry.ordered = clock_.Mono();
    const auto ordered = Order(entry.job.id, process, take);
    if (ordered) continue;
    for (auto& [gpu, evicting] : entry.evicting)
      if (evicting.ordered.erase(process) != 0 && base::IsAlive(process))
        evicting.why = ordered.error().message;
    CheckSoon(entry.job.id);
  }
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
base::Bytes ShareController::HostMemoryLeft() const { return HostMemoryUnused() - HostMemoryComing(); }

base::Bytes ShareController::HostMemoryComing() const {
  base::Bytes coming;
  for (const auto& [id, entry] : entries_)
    for (const auto& [gpu, evicting] : entry.evicting) coming += evicting.host - shims_.HostMemoryOf(id);
  return coming;
}

base::Bytes ShareController::HostMemoryReturning() const {
  base::Bytes returning;
  for (const auto& [id, entry] : entries_)
    if (entry.restore && !entry.restore->stopping) returning += shims_.HostMemoryOf(id);
  return returning;
}

bool ShareController::PassOn(base::JobId job, base::ProcessId process, bool out,
                             base::UntrustedSocket& connection) {
  Entry* const entry = Find(job);
  if (!entry || entry->mode == Entry::Mode::kWithdrawn) return false;
  if (out) {
    Take(job, process, std::move(connection));
    return true;
  }
  movers_.Move(entry->job.owner, {.verb = Verb::kGive, .process = process}, std::move(connection),
               IfHere([job](ShareController& me, const MoverAnswer&) {
                 if (Entry* const there = me.Find(job)) me.Check(*there);
               }));
  return true;
}

void ShareController::Take(base::JobId job, base::ProcessId process, base::UntrustedSocket connection) {
  Entry& entry = entries_.at(job);
  const auto departure = std::make_shared<Departure>(Departure{job, process});  // of both callbacks
  for (auto& [gpu, evicting] : entry.evicting) {
    if (!evicting.ordered.contains(process)) continue;
    departure->orders[gpu] = evicting.order;
    ++evicting.moving;
  }
  movers_.Move(entry.job.owner, {.verb = Verb::kTake, .process = process, .whole = true},
               std::move(connection), IfHere([departure](ShareController& me, const MoverAnswer& answer) {
                 me.Name(*departure, answer.gpu);
                 const bool done = answer.outcome == Outcome::kDone;
                 if (done && answer.bytes > departure->moved)
                   me.TellMovedOut(*departure, answer.gpu, answer.bytes - departure->moved,
                                   answer.unchanged - departure->unchanged);
                 // The data of memory that the process has given up must reach host memory.
                 if (!done && (departure->taken || answer.outcome == Outcome::kLost))
                   return me.GoOn(departure, 0);
                 me.TakeEnded(*departure, WhyNot(departure->process, answer));
               }),
               IfHere([departure](ShareController& me, const MoverAnswer& notice) {
                 me.Name(*departure, notice.gpu);
                 if (notice.outcome == Outcome::kTaken) departure->taken = true;
                 if (notice.outcome != Outcome::kMoving) return;
                 me.TellMovedOut(*departure, notice.gpu, notice.bytes, notice.unchanged);
               }));
}

// Has another mover finish a move that a mover has begun.
void ShareController::GoOn(const std::shared_ptr<Departure>& departure, int losses) {
  const Entry* const entry = Find(departure->job);
  if (!entry) return;
  movers_.Move(entry->job.owner,
               {.verb = Verb::kSecure, .process = departure->process, .source = departure->gpu}, {},
               IfHere([departure, losses](ShareController& me, const MoverAnswer& answer) {
                 const auto& process = departure->process;
                 if (answer.outcome == Outcome::kLost && losses < kMaxLosses && base::IsAlive(process))
                   return me.GoOn(departure, losses + 1);
                 me.TakeEnded(*departure, WhyNot(process, answer));
               }),
               IfHere([departure](ShareController& me, const MoverAnswer& notice) {
                 if (notice.outcome == Outcome::kMoving)
                   me.TellMovedOut(*departure, notice.gpu, notice.bytes, notice.unchanged);
               }));
}

// The departure is of this GPU and of no other.
void ShareController::Name(Departure& departure, const std::string& named) {
  if (named.empty() || !departure.gpu.empty()) return;
  departure.gpu = named;
  const auto is_of = [&](const auto& order) {
    return suspend::BareUuid(order.first) == suspend::BareUuid(named);
  };
  if (departure.orders.size() < 2 || std::none_of(departure.orders.begin(), departure.orders.end(), is_of))
    return;
  for (const auto& [gpu, order] : std::exchange(departure.orders, {})) {
    if (suspend::BareUuid(gpu) == suspend::BareUuid(named))
      departure.orders[gpu] = order;
    else
      TransferEnded(departure.job, {departure.process, gpu}, order, {});
  }
}

void ShareController::TellMovedOut(Departure& departure, const std::string& named, base::Bytes bytes,
                                   base::Bytes unchanged) {
  departure.moved += bytes;
  departure.unchanged += unchanged;
  if (bytes.count == 0) return;
  for (const auto& [gpu, order] : departure.orders) {
    if (departure.orders.size() == 1 || suspend::BareUuid(gpu) == suspend::BareUuid(named))
      return Feed(share::event::MovedOut{departure.job, gpu, bytes, unchanged});
  }
}

void ShareController::TakeEnded(const Departure& departure, const std::string& why) {
  const auto orders = departure.orders;
  for (const auto& [gpu, order] : orders) TransferEnded(departure.job, {departure.process, gpu}, order, why);
  Entry* const entry = orders.empty() ? Find(departure.job) : nullptr;
  if (entry != nullptr) Check(*entry);
}

void ShareController::TransferEnded(base::JobId job, const ProcessGpu& key, share::OrderId order,
                                    const std::string& why) {
  Entry* const entry = Find(job);
  if (!entry) return;
  const auto found = entry->evicting.find(key.gpu);
  if (found != entry->evicting.end() && found->second.order == order) {
    --found->second.moving;
    if (!why.empty()) found->second.from_movers[key.process] = why;
  }
  Check(*entry);
}

void ShareController::EndEvicting(Entry& entry, const std::string& gpu) {
  const auto node = entry.evicting.extract(gpu);
  entry.stale = true;
  CheckSoon(entry.job.id);
  Feed(share::event::EvictDone{entry.job.id, gpu, node.mapped().order, node.mapped().why,
                               node.mapped().works});
}

// A process that was moved to another GPU may still tell of the old one, so its only GPU is not named.
std::string ShareController::SourceName(const std::vector<ledger::EvictableGpu>& homes,
                                        const ledger::EvictableGpu& home) {
  const auto has_memory = [](const ledger::EvictableGpu& one) {
    return (one.evictable + one.evicted).count > 0;
  };
  return std::ranges::count_if(homes, has_memory) > 1 ? home.uuid : std::string();
}

void ShareController::Secure(const Entry& entry, base::ProcessId process, const std::string& source,
                             suspend::Checkpointer::Done done) {
  movers_.Move(entry.job.owner, {.verb = Verb::kSecure, .process = process, .source = source}, {},
               std::move(done));
}

}  // namespace gpuman::daemon
