#include "share/test_quiesce_world.h"

#include <algorithm>
#include <utility>

namespace gpuman::share {
namespace {

using std::chrono::microseconds;

}  // namespace

QuiesceWorld::QuiesceWorld(JobPlan plan, std::uint64_t seed) : plan_(std::move(plan)), random_(seed) {
  for (const JobPlan::Unit& unit : plan_.units) {
    if (processes_.size() <= unit.process) processes_.resize(unit.process + 1);
    processes_[unit.process].units.push_back(static_cast<unsigned>(units_.size()));
    Unit& made = units_.emplace_back();
    made.streams.resize(unit.streams);
    made.process = unit.process;
    made.ahead = unit.ahead;
  }
  for (const JobPlan::Thread& thread : plan_.threads) {
    threads_.emplace_back().unit = thread.unit;
    At(now_ + Between(0, 50), What::kHostDone, static_cast<unsigned>(threads_.size() - 1));
  }
}

void QuiesceWorld::RunFor(Span span) {
  const base::MonoTime end = now_ + span;
  while (StepOnce(end)) {
  }
  now_ = end;
}

bool QuiesceWorld::GoesOn(Span limit) {
  const base::MonoTime end = now_ + limit;
  std::vector<std::uint64_t> before;
  for (const Thread& thread : threads_) before.push_back(thread.steps);
  const auto all_went_on = [&] {
    for (std::size_t i = 0; i < threads_.size(); ++i)
      if (threads_[i].steps == before[i]) return false;
    return true;
  };
  while (!all_went_on())
    for (int i = 0; i < 64; ++i)
      if (!StepOnce(end)) return all_went_on();
  return true;
}

void QuiesceWorld::At(base::MonoTime time, What what, unsigned index, unsigned stream, std::uint64_t serial) {
  events_.push({time, ++numbers_, what, index, stream, serial});
}

Span QuiesceWorld::Between(int least_us, int most_us) {
  return microseconds(least_us +
                      static_cast<int>(random_() % static_cast<std::uint64_t>(most_us - least_us + 1)));
}

bool QuiesceWorld::StepOnce(base::MonoTime end) {
  if (events_.empty() || events_.top().time > end) return false;
  const Event event = events_.top();
  events_.pop();
  now_ = event.time;
  Handle(event);
  return true;
}

void QuiesceWorld::Handle(const Event& event) {
  switch (event.what) {
    case What::kHostDone:
      ++threads_[event.index].next;
      return GoOn(event.index);
    case What::kWorkDone:
      return WorkDone(event.index, event.stream);
    case What::kReturned:
      return Returned(event.index);
    case What::kOrder: {
      Process& process = processes_[event.index];
      if (!closed_) return;
      process.ordered = true;
      if (process.captures == 0) Shut(event.index);
      return;
    }
    case What::kPublish:
      processes_[event.index].publishes = false;
      return Publish(event.index);
    case What::kGrant:
      if (processes_[event.index].next_grant.serial == event.serial) BeginGrant(event.index);
      return;
    case What::kPermit:
      if (threads_[event.index].state == Thread::State::kPermitted) Enter(event.index);
      return;
    case What::kServer:
      if (processes_[event.index].grant.serial == event.serial) OnTimer(event.index);
      return;
    case What::kObserve:
      if (looks_ == event.serial) Observe();
      return;
  }
}

// --- programs

// Executes operations until one takes time.
void QuiesceWorld::GoOn(unsigned index) {
  Thread& thread = threads_[index];
  for (;;) {
    while (thread.next >= thread.ops.size()) {
      thread.ops = plan_.threads[index].ops(thread.steps++);
      thread.next = 0;
    }
    if (!DoOp(index)) return;
    ++thread.next;
  }
}

// Whether the operation is done already.
bool QuiesceWorld::DoOp(unsigned index) {
  Thread& thread = threads_[index];
  const Op& op = thread.op();
  switch (op.kind) {
    case Op::Kind::kHost:
      thread.state = Thread::State::kHost;
      At(now_ + op.time, What::kHostDone, index);
      return false;
    case Op::Kind::kPost:
      Post(op.key);
      return true;
    case Op::Kind::kAwait: {
      Key& key = keys_[op.key];
      if (key.count >= op.parts) return true;
      thread.state = Thread::State::kAwaits;
      key.threads.push_back(index);
      return false;
    }
    default:
      Arrive(index);
      return false;
  }
}

void QuiesceWorld::Arrive(unsigned index) {
  Thread& thread = threads_[index];
  const unsigned process = units_[thread.unit].process;
  if (processes_[process].open) return Enter(index);
  thread.state = Thread::State::kAtGate;
  thread.arrival = ++arrivals_;
  Changed(process);
  const MemoryGrant& grant = processes_[process].grant;
  if (grant.state == MemoryGrant::State::kWaiter && grant.unit == thread.unit) Serve(process);
}

void QuiesceWorld::Enter(unsigned index) {
  Thread& thread = threads_[index];
  Unit& unit = units_[thread.unit];
  Process& process = processes_[unit.process];
  thread.state = Thread::State::kInCall;
  if (!IsBusy(thread.unit)) unit.busy_since = now_;
  ++process.in_call;
  ++unit.in_call;
  Submit(index);
  Changed(unit.process);
}

void QuiesceWorld::Submit(unsigned index) {
  Thread& thread = threads_[index];
  Unit& unit = units_[thread.unit];
  Process& process = processes_[unit.process];
  const Op& op = thread.op();
  const bool blocks = (op.kind == Op::Kind::kLaunch && unit.streams[op.stream].queue.size() >= unit.ahead) ||
                      (op.kind == Op::Kind::kSynchronize && unit.works > 0);
  thread.state = blocks ? Thread::State::kBlocked : Thread::State::kInCall;
  if (blocks) return;
  if (op.kind == Op::Kind::kBeginCapture && ++process.captures == 1 && !process.open) OpenGate(unit.process);
  if (op.kind == Op::Kind::kEndCapture && --process.captures == 0 && process.ordered) Shut(unit.process);
  if (op.kind == Op::Kind::kLaunch) {
    Stream& stream = unit.streams[op.stream];
    for (const Work& work : op.work) stream.queue.push_back(work);
    unit.works += op.work.size();
    if (!stream.started) StartHead(thread.unit, op.stream);
  }
  At(now_ + Between(3, 15), What::kReturned, index);
}

void QuiesceWorld::Returned(unsigned index) {
  Thread& thread = threads_[index];
  const unsigned unit = thread.unit, process = units_[unit].process;
  --processes_[process].in_call;
  ++processes_[process].calls;
  --units_[unit].in_call;
  Changed(process);
  MemoryGrant& grant = processes_[process].grant;
  const bool granted = grant.state == MemoryGrant::State::kCall && grant.thread == index;
  ++thread.next;
  GoOn(index);
  if (granted) CallMade(process);
}

// --- GPUs

void QuiesceWorld::Post(std::uint64_t name) {
  Key& key = keys_[name];
  ++key.count;
  const std::vector<unsigned> threads = std::exchange(key.threads, {});
  const auto streams = std::exchange(key.streams, {});
  for (const unsigned thread : threads) At(now_ + Between(1, 30), What::kHostDone, thread);
  for (const auto& [unit, stream] : streams) StartHead(unit, stream);
}

void QuiesceWorld::StartHead(unsigned unit, unsigned number) {
  Stream& stream = units_[unit].streams[number];
  if (stream.queue.empty()) return;
  const Work& work = stream.queue.front();
  stream.started = true;
  switch (work.kind) {
    case Work::Kind::kKernel:
    case Work::Kind::kPost:
      return At(now_ + work.time, What::kWorkDone, unit, number);
    case Work::Kind::kAwait: {
      Key& key = keys_[work.key];
      if (key.count >= work.parts) return At(now_, What::kWorkDone, unit, number);
      key.streams.emplace_back(unit, number);
      return;
    }
    case Work::Kind::kMeeting: {
      Key& meeting = meetings_[work.key];
      meeting.streams.emplace_back(unit, number);
      if (++meeting.count < work.parts) return;
      for (const auto& [each, its] : meeting.streams) At(now_ + work.time, What::kWorkDone, each, its);
      meetings_.erase(work.key);
      return;
    }
  }
}

void QuiesceWorld::WorkDone(unsigned index, unsigned number) {
  Unit& unit = units_[index];
  Stream& stream = unit.streams[number];
  const Work work = stream.queue.front();
  stream.queue.pop_front();
  stream.started = false;
  --unit.works;
  StartHead(index, number);
  if (work.kind == Work::Kind::kPost) Post(work.key);
  Unblock(index);
  if (unit.works == 0) Changed(unit.process);
}

void QuiesceWorld::Unblock(unsigned unit) {
  for (unsigned i = 0; i < threads_.size(); ++i)
    if (threads_[i].unit == unit && threads_[i].state == Thread::State::kBlocked) Submit(i);
}

bool QuiesceWorld::IsBusy(unsigned unit) const { return units_[unit].works > 0 || units_[unit].in_call > 0; }

bool QuiesceWorld::IsQuiet() const {
  for (unsigned i = 0; i < units_.size(); ++i)
    if (IsBusy(i)) return false;
  return std::none_of(processes_.begin(), processes_.end(),
                      [](const Process& process) { return process.open || process.captures > 0; });
}

// How many calls the threads had to make, when the first was allowed, until the end of so many steps.
std::uint64_t QuiesceWorld::CallsBefore(std::uint64_t steps) const {
  const auto is_call = [](const Op& op) { return op.kind >= Op::Kind::kLaunch; };
  std::uint64_t calls = 0;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    const Thread& thread = before_[i];
    calls += static_cast<std::uint64_t>(std::count_if(
        thread.ops.begin() + static_cast<std::ptrdiff_t>(thread.next), thread.ops.end(), is_call));
    for (std::uint64_t later = thread.steps; later < steps; ++later) {
      const std::vector<Op> ops = plan_.threads[i].ops(later);
      calls += static_cast<std::uint64_t>(std::count_if(ops.begin(), ops.end(), is_call));
    }
  }
  return calls;
}

}  // namespace gpuman::share
