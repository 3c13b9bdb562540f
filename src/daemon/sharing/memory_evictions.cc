#include "daemon/sharing/memory_evictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/sharing/memory_restores.h"
#include "daemon/shims/shim_channel.h"
#include "daemon/shims/slot_state.h"
#include "daemon/shims/slot_text.h"
#include "daemon/suspension/suspend_controller.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::OrderError;
using ledger::wire::OrderKind;
using suspend::MoverAnswer;
using suspend::MoverOutcome;
using suspend::Verb;

// How often at most a move is begun anew after its mover died.
constexpr int kMaxLosses = 5;

// Why a process's memory has not moved; empty: it has moved, or the process has ended.
std::string WhyNot(const base::ProcessId& process, const MoverAnswer& answer) {
  return answer.outcome == MoverOutcome::kDone || !base::IsAlive(process) ? std::string() : answer.message;
}

bool Ends(const base::ProcessId& process, const std::vector<ledger::SlotStatus>& slots) {
  return std::ranges::none_of(
      slots, [&](const ledger::SlotStatus& one) { return one.process == process && !IsAtItsEnd(one); });
}

}  // namespace

MemoryEvictions::MemoryEvictions(Core& core, ShimChannel& shims, SuspendController& suspension,
                                 MemoryRestores& restores, Callbacks callbacks)
    : core_(core),
      shims_(shims),
      suspension_(suspension),
      restores_(restores),
      movers_(suspension.movers()),
      callbacks_(std::move(callbacks)) {}

void MemoryEvictions::Begin(const SharedJob& job, const share::action::Evict& order,
                            const std::set<base::ProcessId>& stay) {
  const bool fits = order.bytes <= HostMemoryLeft();
  Job& its = jobs_[job.id];
  Eviction& eviction = its.evictions[order.gpu] = {.order = order.order};
  if (!fits) {
    eviction.why =
        fmt::format("{} more do not fit into what jobs may keep in host memory (suspend.host_memory)",
                    base::FormatBytes(order.bytes));
    return Finish(job.id, order.gpu);
  }
  eviction.host = shims_.HostMemoryOf(job.id) + order.bytes;
  suspension_.PrepareMovers();  // kept copies give way
  const base::Bytes secured = restores_.SecureLoaded(
      job, order.gpu, order.bytes, [&eviction] { ++eviction.moving; },
      self_.Bind([id = job.id, number = order.order](MemoryEvictions& me, const ProcessGpu& key,
                                                     base::Bytes bytes, base::Bytes copied) {
        if (!me.jobs_.contains(id)) return;
        // Memory that came from host memory is there still, and goes without a copy.
        me.callbacks_.tell(share::event::MovedOut{id, key.gpu, bytes, bytes - copied});
        me.OnTransferred(id, key, number, {});
      }));
  base::Bytes left = order.bytes - secured;
  std::vector<std::pair<base::ProcessId, ledger::EvictableGpu>> homes;
  for (const auto& one : shims_.SlotStatusesOf(job.id)) {
    if (stay.contains(one.process)) continue;
    for (const auto& home : HomesOf(one, job.gpus))
      if (home.uuid == order.gpu) homes.emplace_back(one.process, home);
  }
  std::sort(homes.begin(), homes.end(), [](const auto& a, const auto& b) {
    return std::pair(b.second.evictable, a.first) < std::pair(a.second.evictable, b.first);
  });
  for (const auto& [process, home] : homes) {
    const base::Bytes bytes = std::min(left, home.evictable);
    if (bytes.count == 0) break;
    left = left - bytes;
    eviction.ordered[process] = home.evicted + bytes;
    its.to_order.insert(process);
  }
  if (eviction.ordered.empty() && eviction.moving == 0) Finish(job.id, order.gpu);
}

void MemoryEvictions::SendOrders() {
  for (auto& [id, job] : jobs_) {
    for (const auto& process : std::exchange(job.to_order, {})) {
      ledger::ProcessOrder take{OrderKind::kTake, {}};
      for (const auto& [gpu, eviction] : job.evictions)
        if (const auto its = eviction.ordered.find(process); its != eviction.ordered.end())
          take.away[gpu] = its->second;
      const auto ordered = callbacks_.order(id, process, take);
      if (ordered) continue;
      for (auto& [gpu, eviction] : job.evictions)
        if (eviction.ordered.erase(process) != 0 && base::IsAlive(process))
          eviction.why = ordered.error().message;
      callbacks_.check_soon(id);
    }
  }
}

void MemoryEvictions::DropOrders(base::JobId job) {
  if (const auto found = jobs_.find(job); found != jobs_.end()) found->second.to_order.clear();
}

void MemoryEvictions::OnSlots(base::JobId job, const std::vector<ledger::SlotStatus>& slots) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  std::vector<std::string> done;
  for (auto& [gpu, eviction] : found->second.evictions) {
    for (const auto& one : slots) {
      if (!one.answered || eviction.ordered.erase(one.process) == 0) continue;
      if (one.error == OrderError::kNone || IsAtItsEnd(one)) continue;
      eviction.why = TextOf(one);
      eviction.works =
          eviction.works || one.error == OrderError::kBusy || one.error == OrderError::kCapturing;
    }
    std::erase_if(eviction.ordered, [&](const auto& gone) {
      return std::ranges::none_of(slots,
                                  [&](const ledger::SlotStatus& one) { return one.process == gone.first; });
    });
    if (eviction.ordered.empty() && eviction.moving == 0) done.push_back(gpu);
  }
  for (const auto& gpu : done) {
    // Finish tells the scheduler, which may have ended the next one by then.
    const auto its = jobs_.find(job);
    if (its == jobs_.end()) return;
    const auto eviction = its->second.evictions.find(gpu);
    if (eviction == its->second.evictions.end()) continue;
    // A mover sees only that a process has closed its connection, not whether the process is ending.
    for (const auto& [process, why] : eviction->second.from_movers)
      if (!Ends(process, slots)) eviction->second.why = why;
    Finish(job, gpu);
  }
}

bool MemoryEvictions::CancelOrder(base::JobId job, const base::ProcessId& process, const std::string& why) {
  const auto found = jobs_.find(job);
  bool had_order = false;
  if (found == jobs_.end()) return had_order;
  for (auto& [gpu, eviction] : found->second.evictions) {
    if (eviction.ordered.erase(process) == 0) continue;
    eviction.why = why;
    had_order = true;
  }
  return had_order;
}

void MemoryEvictions::Abort(base::JobId job) {
  if (const auto found = jobs_.find(job); found != jobs_.end()) found->second = {};
}

void MemoryEvictions::Finish(base::JobId job, const std::string& gpu) {
  const auto node = jobs_.at(job).evictions.extract(gpu);
  callbacks_.tell(
      share::event::EvictDone{job, gpu, node.mapped().order, node.mapped().why, node.mapped().works});
}

void MemoryEvictions::Take(const SharedJob& job, base::ProcessId process, base::UntrustedSocket connection) {
  // Both callbacks share this object.
  const auto departure = std::make_shared<Departure>(Departure{job.id, job.owner, process});
  for (auto& [gpu, eviction] : jobs_[job.id].evictions) {
    if (!eviction.ordered.contains(process)) continue;
    departure->orders[gpu] = eviction.order;
    ++eviction.moving;
  }
  movers_.Move(job.owner, {.verb = Verb::kTake, .process = process, .whole = true}, std::move(connection),
               self_.Bind([departure](MemoryEvictions& me, const MoverAnswer& answer) {
                 me.Name(*departure, answer.gpu);
                 const bool done = answer.outcome == MoverOutcome::kDone;
                 if (done && answer.bytes > departure->moved)
                   me.TellMovedOut(*departure, answer.gpu, answer.bytes - departure->moved,
                                   answer.unchanged - departure->unchanged);
                 // The data of memory that the process has given up must reach host memory.
                 if (!done && (departure->taken || answer.outcome == MoverOutcome::kLost))
                   return me.TakeOver(departure, 0);
                 me.OnTaken(*departure, WhyNot(departure->process, answer));
               }),
               self_.Bind([departure](MemoryEvictions& me, const MoverAnswer& notice) {
                 me.Name(*departure, notice.gpu);
                 if (notice.outcome == MoverOutcome::kTaken) departure->taken = true;
                 if (notice.outcome != MoverOutcome::kMoving) return;
                 me.TellMovedOut(*departure, notice.gpu, notice.bytes, notice.unchanged);
               }));
}

void MemoryEvictions::TakeOver(const std::shared_ptr<Departure>& departure, int losses) {
  if (!jobs_.contains(departure->job)) return;
  movers_.Move(departure->owner,
               {.verb = Verb::kSecure, .process = departure->process, .source = departure->gpu}, {},
               self_.Bind([departure, losses](MemoryEvictions& me, const MoverAnswer& answer) {
                 const auto& process = departure->process;
                 if (answer.outcome == MoverOutcome::kLost && losses < kMaxLosses && base::IsAlive(process))
                   return me.TakeOver(departure, losses + 1);
                 me.OnTaken(*departure, WhyNot(process, answer));
               }),
               self_.Bind([departure](MemoryEvictions& me, const MoverAnswer& notice) {
                 if (notice.outcome == MoverOutcome::kMoving)
                   me.TellMovedOut(*departure, notice.gpu, notice.bytes, notice.unchanged);
               }));
}

// The departure is of this GPU and of no other.
void MemoryEvictions::Name(Departure& departure, const std::string& named) {
  if (named.empty() || !departure.gpu.empty()) return;
  departure.gpu = named;
  const auto is_of = [&](const auto& order) {
    return suspend::BareUuid(order.first) == suspend::BareUuid(named);
  };
  if (departure.orders.size() < 2 || std::ranges::none_of(departure.orders, is_of)) return;
  for (const auto& [gpu, order] : std::exchange(departure.orders, {})) {
    if (suspend::BareUuid(gpu) == suspend::BareUuid(named))
      departure.orders[gpu] = order;
    else
      OnTransferred(departure.job, {departure.process, gpu}, order, {});
  }
}

void MemoryEvictions::TellMovedOut(Departure& departure, const std::string& named, base::Bytes bytes,
                                   base::Bytes unchanged) {
  if (!jobs_.contains(departure.job)) return;
  departure.moved += bytes;
  departure.unchanged += unchanged;
  if (bytes.count == 0) return;
  for (const auto& [gpu, order] : departure.orders)
    if (departure.orders.size() == 1 || suspend::BareUuid(gpu) == suspend::BareUuid(named))
      return callbacks_.tell(share::event::MovedOut{departure.job, gpu, bytes, unchanged});
}

void MemoryEvictions::OnTaken(const Departure& departure, const std::string& why) {
  const auto orders = departure.orders;
  for (const auto& [gpu, order] : orders) OnTransferred(departure.job, {departure.process, gpu}, order, why);
  if (orders.empty()) callbacks_.check(departure.job);
}

void MemoryEvictions::OnTransferred(base::JobId job, const ProcessGpu& key, share::OrderId order,
                                    const std::string& why) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  const auto eviction = found->second.evictions.find(key.gpu);
  if (eviction != found->second.evictions.end() && eviction->second.order == order) {
    --eviction->second.moving;
    if (!why.empty()) eviction->second.from_movers[key.process] = why;
  }
  callbacks_.check(job);
}

bool MemoryEvictions::IsUnderWay(base::JobId job) const {
  const auto found = jobs_.find(job);
  return found != jobs_.end() && !found->second.evictions.empty();
}

std::set<std::string> MemoryEvictions::GpusOf(base::JobId job) const {
  std::set<std::string> gpus;
  if (const auto found = jobs_.find(job); found != jobs_.end())
    for (const auto& [gpu, eviction] : found->second.evictions) gpus.insert(gpu);
  return gpus;
}

base::Bytes MemoryEvictions::HostMemoryComing() const {
  base::Bytes coming;
  for (const auto& [id, job] : jobs_)
    for (const auto& [gpu, eviction] : job.evictions) coming += eviction.host - shims_.HostMemoryOf(id);
  return coming;
}

base::Bytes MemoryEvictions::HostMemoryUnused() const {
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

}  // namespace gpuman::daemon
