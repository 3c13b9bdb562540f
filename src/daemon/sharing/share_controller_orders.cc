// The gates of shared jobs: the orders to their shims, and the shims' answers.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/sharing/share_controller.h"
#include "daemon/shims/process_stop.h"
#include "daemon/shims/quiesce_view.h"
#include "daemon/shims/slot_state.h"
#include "daemon/shims/slot_text.h"

namespace gpuman::daemon {

using ledger::wire::MemoryResidency;
using ledger::wire::OrderError;
using ledger::wire::OrderKind;

namespace {

// How long after a refused order to open the gate the order is given again.
constexpr base::Millis kOpenAgain{1000};

std::map<std::string, std::int64_t> FiguresOf(const JobQuiescer::Result& result) {
  return {{"milliseconds", result.took.count()},
          {"steps", result.calls},
          {"units", result.count.units},
          {"working", result.count.units - result.count.at_rest}};
}

}  // namespace

void ShareController::Open(Entry& entry) {
  quiescer_.Cancel(entry.job.id, entry.rest);
  entry.close.reset();
  evictions_.DropOrders(entry.job.id);
  entry.ordered = clock_.Mono();
  entry.opening = clock_.Mono();
  entry.open = true;
  entry.at_work.clear();
  entry.room.OnGateOpened();
  // The scheduler takes the job for busy from now on.
  if (entry.activity == share::TenantActivity::kWaiting) entry.activity = share::TenantActivity::kBusy;
  (void)OrderAll(entry.job.id, {OrderKind::kRun});
}

void ShareController::Close(Entry& entry, const share::action::Close& order) {
  entry.close = order.order;
  entry.opening.reset();
  entry.open = false;
  entry.in_part = order.in_part;
  shims_.ShowLife(entry.job.id);
  // Rounded up: the job has all of the time that the scheduler gives it.
  BringToRest(entry, std::chrono::ceil<base::Millis>(order.deadline - clock_.Mono()));
}

void ShareController::BringToRest(Entry& entry, base::Millis limit) {
  entry.ordered = clock_.Mono();
  const auto done = self_.Bind([job = entry.job.id](ShareController& me, const JobQuiescer::Result& result) {
    if (Entry* const there = me.Find(job)) me.OnRest(*there, result);
  });
  const bool in_part = entry.close && entry.in_part;
  entry.rest =
      in_part ? quiescer_.BeginInPart(entry.job.id, limit, done) : quiescer_.Begin(entry.job.id, limit, done);
}

void ShareController::FindAtWork(Entry& entry) {
  entry.at_work.clear();
  for (const auto& one : shims_.SlotStatusesOf(entry.job.id))
    if (HasContext(one) && !IsHeld(one)) entry.at_work.insert(one.process);
}

void ShareController::OnRest(Entry& entry, const JobQuiescer::Result& result) {
  const auto id = entry.job.id;
  CheckAnswers(entry);  // the scheduler knows of a process that does not answer before it hears of the gate
  if (entry.mode == Entry::Mode::kTaking)
    return result.rested ? JoinClosed(entry) : GiveUpTaking(entry, result);
  if (!entry.close) return;
  if (!result.rested)
    return Feed(share::event::GateNotClosed{id, *std::exchange(entry.close, std::nullopt), result.why,
                                            result.late, KeepsWorkForRoom(shims_.SlotStatusesOf(id)),
                                            FiguresOf(result)});
  entry.stale = true;
  if (entry.in_part) FindAtWork(entry);
  // Memory that the job took of its promises is counted before the promises are void.
  CheckDemand(entry, shims_.SlotStatusesOf(id));
  if (!entry.close) return;  // CheckDemand told the scheduler, and it opened the gate
  entry.room.OnGateClosed();
  Feed(share::event::GateClosed{id, *std::exchange(entry.close, std::nullopt)});
}

// Each of these checks reads the slots itself, because an earlier one may tell the scheduler something that
// brings new orders.
void ShareController::CheckOrders(Entry& entry) {
  if (evictions_.IsUnderWay(entry.job.id)) {
    const auto slots = shims_.SlotStatusesOf(entry.job.id);
    LetGoOfSilent(entry, slots);
    evictions_.OnSlots(entry.job.id, slots);
  }
  if (entry.opening) CheckOpening(entry);
}

void ShareController::JoinClosed(Entry& entry) {
  entry.stale = true;
  entry.mode = Entry::Mode::kShared;
  entry.activity = share::TenantActivity::kUnknown;
  Feed(share::event::Unsuspended{entry.job.id, share::GatePosition::kClosed});
  CheckSoon(entry.job.id);  // the scheduler opens no gate of a job whose memory it does not know
}

// No process is stopped for this: processes with all of their memory run on, and the others get their memory
// with their turn.
void ShareController::GiveUpTaking(Entry& entry, const JobQuiescer::Result& result) {
  const auto slots = shims_.SlotStatusesOf(entry.job.id);
  const bool whole =
      !restores_.HasLoaded(entry.job.id) &&
      std::all_of(slots.begin(), slots.end(), [](const auto& one) { return one.evicted.count == 0; });
  const auto why = (result.late ? "its work did not come to rest in time: " : "") + result.why;
  if (whole) return JoinOpen(entry, entry.silence.empty() ? why : entry.silence);
  // A process that joins later is held until the job's turn, like those whose memory is away.
  (void)OrderAll(entry.job.id, {OrderKind::kHold});
  for (const auto& one : slots) {
    if (one.evicted.count != 0) continue;
    (void)Order(entry.job.id, one.process, {OrderKind::kRun});
    entry.at_work.insert(one.process);
  }
  JoinClosed(entry);
}

void ShareController::JoinOpen(Entry& entry, std::string refused) {
  entry.mode = Entry::Mode::kShared;
  entry.stale = true;
  entry.activity = share::TenantActivity::kUnknown;
  Open(entry);
  Feed(share::event::Unsuspended{entry.job.id, share::GatePosition::kOpen, std::move(refused)});
}

void ShareController::CheckOpening(Entry& entry) {
  bool open = true, refused = false;
  std::string why;
  for (const auto& one : shims_.SlotStatusesOf(entry.job.id)) {
    if (!HasContext(one)) continue;
    if (one.answered && one.error != OrderError::kNone) {
      refused = true;
      why = fmt::format("process {} could not take its memory back: {}", one.process.pid, TextOf(one));
    }
    open = open && one.answered && one.residency == MemoryResidency::kOnGpu;
  }
  if (open) {
    entry.opening.reset();
    restores_.ForgetLoaded(entry.job.id);
    entry.stale = true;
  } else if (refused && clock_.Mono() >= *entry.opening + kOpenAgain) {
    Tell({entry.job.id, "share_return_failed", why, {}});
    Open(entry);
  }
}

}  // namespace gpuman::daemon
