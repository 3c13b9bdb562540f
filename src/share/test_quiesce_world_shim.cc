// The gates and shims of the model, and the daemon that asks QuiescePlanner.
#include <algorithm>
#include <sstream>
#include <utility>

#include "share/test_quiesce_world.h"

namespace gpuman::share {
namespace {

using std::chrono::microseconds, std::chrono::milliseconds;

// What the shims do by themselves: how long a call may take to come to rest before the grant waits for that;
// how long one waits for somebody to come to the gate; the pause of a careful grant.
constexpr Span kAtOnce = milliseconds(1), kNobody = milliseconds(5), kPause = microseconds(100);

}  // namespace

ProcessGpuId QuiesceWorld::IdOf(unsigned unit) const {
  const unsigned process = units_[unit].process;
  return {{static_cast<pid_t>(800 + process), 1}, unit};
}

void QuiesceWorld::Problem(std::string what) {
  if (problem_.empty()) problem_ = std::move(what);
}

// --- gates

void QuiesceWorld::Shut(unsigned index) {
  Process& process = processes_[index];
  process.open = false;
  Changed(index);
  if (process.grant.state == MemoryGrant::State::kCapture) CallMade(index);
}

void QuiesceWorld::OpenGate(unsigned index) {
  processes_[index].open = true;
  for (unsigned i = 0; i < threads_.size(); ++i)
    if (units_[threads_[i].unit].process == index && threads_[i].state == Thread::State::kAtGate) Enter(i);
  Changed(index);
}

void QuiesceWorld::Open() {
  closed_ = false;
  planner_.reset();
  ++looks_;
  for (unsigned i = 0; i < processes_.size(); ++i) {
    processes_[i].ordered = false;
    ++processes_[i].grant.serial;
    processes_[i].grant.state = MemoryGrant::State::kNone;
    OpenGate(i);
  }
}

// --- what a shim publishes

void QuiesceWorld::Changed(unsigned index) {
  Process& process = processes_[index];
  if (!process.ordered || std::exchange(process.publishes, true)) return;
  At(now_ + (random_() % 8 == 0 ? Between(100, 1000) : Between(10, 100)), What::kPublish, index);
}

// A call in flight is shown for the units that work; if none works, for all units.
bool QuiesceWorld::Works(unsigned unit) const {
  const Process& process = processes_[units_[unit].process];
  if (process.open || units_[unit].works > 0) return true;
  return process.in_call > 0 && std::none_of(process.units.begin(), process.units.end(),
                                             [&](unsigned each) { return units_[each].works > 0; });
}

void QuiesceWorld::Publish(unsigned index) {
  Process& process = processes_[index];
  bool changed = std::exchange(process.says_shut, !process.open) == process.open;
  process.says_calls = process.calls;
  for (const unsigned each : process.units) {
    Unit& unit = units_[each];
    const bool works = Works(each), waits = Waiter(each).has_value();
    changed |= works != unit.says_works || waits != unit.says_waits;
    if (unit.says_works && !works && now_ - unit.busy_since > kAtOnce) ++rests_;
    unit.says_works = works;
    unit.says_waits = waits;
  }
  if (changed) Notify();
  if (process.grant.state == MemoryGrant::State::kLong && !units_[process.grant.unit].says_works)
    EndGrant(index);
}

// The thread that waits longest at the gate for this unit.
std::optional<unsigned> QuiesceWorld::Waiter(unsigned unit) const {
  std::optional<unsigned> first;
  for (unsigned i = 0; i < threads_.size(); ++i) {
    if (threads_[i].unit != unit || threads_[i].state != Thread::State::kAtGate) continue;
    if (!first || threads_[i].arrival < threads_[*first].arrival) first = i;
  }
  return first;
}

// --- grants

void QuiesceWorld::BeginGrant(unsigned index) {
  Process& process = processes_[index];
  process.grant = process.next_grant;
  process.grant.rests = rests_;
  if (process.open || !process.ordered) return EndGrant(index);
  Serve(index);
}

void QuiesceWorld::Timer(unsigned index, Span after) {
  At(now_ + after, What::kServer, index, 0, processes_[index].grant.serial = ++numbers_);
}

void QuiesceWorld::Serve(unsigned index) {
  MemoryGrant& grant = processes_[index].grant;
  const std::optional<unsigned> waiter = Waiter(grant.unit);
  if (!waiter) {
    if (grant.state == MemoryGrant::State::kWaiter) return;
    grant.state = MemoryGrant::State::kWaiter;
    return Timer(index, kNobody);
  }
  if (threads_[*waiter].op().kind == Op::Kind::kBeginCapture && grant.order.behind) return EndGrant(index);
  grant.thread = *waiter;
  threads_[*waiter].state = Thread::State::kPermitted;
  At(now_ + Between(5, 80), What::kPermit, *waiter);
  grant.state = MemoryGrant::State::kCall;
  Timer(index, kAtOnce);
}

void QuiesceWorld::OnTimer(unsigned index) {
  MemoryGrant& grant = processes_[index].grant;
  switch (grant.state) {
    case MemoryGrant::State::kWaiter:
      return EndGrant(index);
    case MemoryGrant::State::kCall:
      // It blocks in the driver, or has not come so far.
      return threads_[grant.thread].state == Thread::State::kBlocked ? CallMade(index)
                                                                     : Timer(index, kAtOnce);
    case MemoryGrant::State::kObserve:
      return CheckGrant(index);
    case MemoryGrant::State::kPause:
      return grant.rests != rests_ ? EndGrant(index) : Serve(index);
    default:
      return;
  }
}

// A call has returned, or blocks.
void QuiesceWorld::CallMade(unsigned index) {
  Process& process = processes_[index];
  MemoryGrant& grant = process.grant;
  if (process.open) {
    grant.state = MemoryGrant::State::kCapture;  // it counts when the gate is shut again
    return;
  }
  ++grant.calls;
  if (grant.order.behind) {
    if (grant.calls == grant.order.calls) return EndGrant(index);
    grant.state = MemoryGrant::State::kNone;
    return Serve(index);
  }
  if (grant.calls % (1u << grant.order.stride) != 0 && grant.calls < grant.order.calls) {
    grant.state = MemoryGrant::State::kNone;
    return Serve(index);
  }
  grant.state = MemoryGrant::State::kObserve;
  Timer(index, IsBusy(grant.unit) ? kAtOnce : Between(10, 60));
}

void QuiesceWorld::CheckGrant(unsigned index) {
  MemoryGrant& grant = processes_[index].grant;
  if (Works(grant.unit)) {
    grant.state = MemoryGrant::State::kLong;
    return Publish(index);
  }
  if (grant.calls >= grant.order.calls) return EndGrant(index);
  if (grant.rests != rests_) return EndGrant(index);
  if (!grant.order.careful) {
    grant.state = MemoryGrant::State::kNone;
    return Serve(index);
  }
  grant.state = MemoryGrant::State::kPause;
  Timer(index, kPause);
}

void QuiesceWorld::EndGrant(unsigned index) {
  Process& process = processes_[index];
  process.grant.state = MemoryGrant::State::kEnded;
  Publish(index);
  process.told = false;
  Notify();
}

// --- the daemon

QuiesceWorld::Result QuiesceWorld::Close(const QuiesceSettings& settings, QuiesceHistory history,
                                         Span limit) {
  closed_ = true;
  const base::MonoTime deadline = now_ + limit;
  planner_.emplace(settings, std::move(history), now_, deadline);
  last_ = {};
  result_ = {};
  for (Unit& unit : units_) unit.says_works = true, unit.says_waits = false;
  for (unsigned i = 0; i < processes_.size(); ++i) {
    processes_[i].says_shut = false;
    At(now_ + Between(50, 2000), What::kOrder, i);
  }
  before_.clear();
  ObserveAt(now_);
  while (last_.kind == QuiesceDecision::Kind::kWait || last_.kind == QuiesceDecision::Kind::kGrant) {
    if (now_ > deadline + settings.settle) Problem("it is not over at its deadline");
    if (!problem_.empty() || !StepOnce(base::MonoTime::max())) break;
  }
  RunFor(milliseconds(20));
  for (int i = 0; i < 10; ++i) {
    RunFor(milliseconds(2));
    Observe();
  }
  result_.kind = last_.kind;
  result_.figures = planner_->figures();
  std::uint64_t furthest = 0;
  for (const Thread& thread : before_) furthest = std::max(furthest, thread.steps);
  result_.needed = CallsBefore(furthest + 1 + result_.passes + 8 * result_.figures.leaps);
  result_.history = std::move(*planner_).Take();
  return result_;
}

void QuiesceWorld::Notify() {
  if (planner_) ObserveAt(now_ + Between(50, 500));
}

void QuiesceWorld::ObserveAt(base::MonoTime time) {
  if (look_time_ > now_ && look_time_ <= time) return;
  look_time_ = time;
  At(time, What::kObserve, 0, 0, ++looks_);
}

QuiesceView QuiesceWorld::ViewNow() {
  QuiesceView view;
  view.all_shut = true;
  for (unsigned i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    view.all_shut &= process.says_shut;
    if (!std::exchange(process.told, true))
      view.ended.push_back({IdOf(process.grant.unit), process.grant.calls});
  }
  for (unsigned i = 0; i < units_.size(); ++i)
    view.units.push_back({IdOf(i), units_[i].says_works, units_[i].says_waits,
                          processes_[units_[i].process].says_shut, false,
                          processes_[units_[i].process].says_calls});
  std::sort(view.units.begin(), view.units.end(),
            [](const ProcessGpuState& a, const ProcessGpuState& b) { return a.id < b.id; });
  return view;
}

void QuiesceWorld::Observe() {
  look_time_ = {};
  ++looks_;
  if (!planner_) return;
  const bool over =
      last_.kind == QuiesceDecision::Kind::kRested || last_.kind == QuiesceDecision::Kind::kFailed;
  QuiesceDecision decision = planner_->Decide(ViewNow(), now_);
  if (over && decision.kind != last_.kind) Problem("it does not stay over");
  if (decision.kind == QuiesceDecision::Kind::kRested && !IsQuiet())
    Problem("it rested while something worked");
  last_ = std::move(decision);
  if (over) return;
  CarryOut(last_);
  if (last_.kind == QuiesceDecision::Kind::kWait || last_.kind == QuiesceDecision::Kind::kGrant) {
    if (last_.look_at <= now_) Problem("it asks to be asked at once");
    ObserveAt(std::max(last_.look_at, now_ + microseconds(1)));
  }
}

void QuiesceWorld::CarryOut(const QuiesceDecision& decision) {
  if (decision.kind == QuiesceDecision::Kind::kWait) return;
  if (before_.empty()) before_ = threads_;
  if (std::any_of(decision.grants.begin(), decision.grants.end(),
                  [](const auto& grant) { return grant.behind; }))
    ++result_.passes;
  std::ostringstream said;
  said << static_cast<int>(decision.kind) << '@' << now_.time_since_epoch().count();
  for (const GateCallGrant& grant : decision.grants) {
    said << ' ' << grant.unit.gpu << 'x' << grant.calls << (grant.behind ? "b" : "");
    Process& process = processes_[units_[grant.unit.gpu].process];
    if (!process.says_shut) Problem("a step to a process whose gate is open");
    if (grant.behind) result_.behind += grant.calls;
    result_.beyond += (1u << grant.stride) - 1;
    process.told = true;
    process.next_grant = {MemoryGrant::State::kNone, grant.unit.gpu, grant, 0, 0, 0, ++numbers_};
    At(now_ + Between(20, 500), What::kGrant, units_[grant.unit.gpu].process, 0, process.next_grant.serial);
  }
  result_.said += said.str() + '\n';
}

}  // namespace gpuman::share
