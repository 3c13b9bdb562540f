#include "daemon/shims/job_quiescer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "daemon/shims/process_stop.h"
#include "daemon/shims/slot_state.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::OrderKind;

constexpr base::Millis kFirstPoll{3};         // after the order
constexpr base::Millis kRestPollInterval{2};  // while units may wait for each other
constexpr base::Millis kHoldsOn{1000};  // a hold that is not made to last ends so long after the attempt
constexpr base::Millis kConfirms{50};   // for the answers to a hold that lasts, of processes at rest
constexpr base::Millis kReorderInterval{20};  // between two orders to processes that took too long
constexpr base::Millis kStoppedInterval{50};
constexpr int kOpeningPart = 2;  // processes may take this part of the limit to take up an order to run

base::Millis InMillis(share::Span span) { return std::chrono::duration_cast<base::Millis>(span); }

bool Stands(const base::ProcessId& process) { return IsStopped(process).has_value(); }

void Count(JobQuiescer::Totals& totals, const JobQuiescer::Result& result, share::Span took) {
  totals.calls += result.calls;
  if (result.rested)
    totals.rested.Observe(std::chrono::duration<double>(took).count());
  else
    ++(result.late ? totals.late : totals.failed);
}

}  // namespace

JobQuiescer::JobQuiescer(boost::asio::io_context& loop, const base::Clock& clock, ShimChannel& shims,
                         NameOfGpu name_of_gpu)
    : loop_(loop), clock_(clock), shims_(shims), name_of_gpu_(std::move(name_of_gpu)) {}

JobQuiescer::AttemptId JobQuiescer::Begin(base::JobId job, base::Millis limit, Done done) {
  return Begin(job, limit, std::nullopt, std::move(done));
}

JobQuiescer::AttemptId JobQuiescer::BeginInPart(base::JobId job, base::Millis limit, Done done) {
  Processes wait;
  for (const auto& one : shims_.SlotStatusesOf(job))
    if (one.rest.for_room || one.activity == ledger::wire::Activity::kForRoom) wait.insert(one.process);
  if (wait.empty()) return Begin(job, limit, std::move(done));
  return Begin(job, limit, std::move(wait), std::move(done));
}

JobQuiescer::AttemptId JobQuiescer::Begin(base::JobId job, base::Millis limit, std::optional<Processes> only,
                                          Done done) {
  if (const auto earlier = attempts_.find(job); earlier != attempts_.end()) Drop(earlier);
  std::erase_if(history_, [this](const auto& each) { return !shims_.Has(each.first); });
  const auto now = clock_.Mono(), deadline = now + limit;
  Attempt& attempt =
      attempts_
          .emplace(job, Attempt{++last_, std::move(only), now, deadline, std::move(done),
                                AnswerPollSchedule(kFirstPoll), NewPlanner(history_[job], now, deadline)})
          .first->second;
  const auto slots = SlotsOf(job, attempt);
  attempt.several = QuiesceViewOf(slots, attempt.state).units.size() > 1;
  attempt.opening = AreOpening(slots, Stands);
  if (!attempt.opening) OrderHold(job, attempt);
  if (!attempt.ended) SetTimer(job, attempt);
  return attempt.id;
}

void JobQuiescer::Cancel(base::JobId job, AttemptId attempt) {
  const auto found = attempts_.find(job);
  if (found != attempts_.end() && found->second.id == attempt) Drop(found);
}

void JobQuiescer::Drop(Attempts::iterator attempt) {
  if (!attempt->second.ended) {
    auto& totals = totals_[attempt->second.several ? 1 : 0];
    ++totals.cancelled;
    totals.calls += CallsOf(attempt->second);
  }
  attempts_.erase(attempt);
}

std::optional<JobQuiescer::Progress> JobQuiescer::ProgressOf(base::JobId job) const {
  const auto found = attempts_.find(job);
  if (found == attempts_.end()) return std::nullopt;
  const auto slots = SlotsOf(job, found->second);
  return Progress{CountAtRest(slots), CallsOf(found->second), InMillis(clock_.Mono() - found->second.began),
                  WhyNot(job, slots)};
}

share::QuiescePlanner JobQuiescer::NewPlanner(share::QuiesceHistory history, base::MonoTime began,
                                              base::MonoTime deadline) const {
  return share::QuiescePlanner({.call_grants = call_grants_}, std::move(history), began, deadline);
}

void JobQuiescer::OnNotify(base::JobId job) { Check(job); }

JobQuiescer::Slots JobQuiescer::SlotsOf(base::JobId job, const Attempt& attempt) const {
  auto slots = shims_.SlotStatusesOf(job);
  if (attempt.only)
    std::erase_if(slots, [&](const ledger::SlotStatus& one) { return !attempt.only->contains(one.process); });
  return slots;
}

// A single unit cannot be held in part, so its hold lasts from the begin.
ledger::ProcessOrder JobQuiescer::Hold(const Attempt& attempt) const {
  ledger::ProcessOrder command{OrderKind::kHold};
  if (attempt.several && !attempt.confirmed)
    command.patience = InMillis(attempt.deadline - attempt.began) + kHoldsOn;
  return command;
}

// The order ends all grants.
void JobQuiescer::OrderHold(base::JobId job, Attempt& attempt) {
  attempt.poll.Ordered(clock_.Mono());
  if (attempt.only) {
    for (const auto& process : *attempt.only) (void)shims_.Order(job, process, Hold(attempt));
    return;
  }
  if (const auto told = shims_.OrderAll(job, Hold(attempt)); !told)
    End(job, attempt, {.why = told.error().message});
}

void JobQuiescer::Check(base::JobId job) {
  const auto it = attempts_.find(job);
  if (it == attempts_.end() || it->second.ended) return;
  Attempt& attempt = it->second;
  const auto now = clock_.Mono();
  const auto slots = SlotsOf(job, attempt);
  if (attempt.opening) return AwaitOpening(job, attempt, slots);
  const bool look = now >= attempt.stopped_at;
  if (look) attempt.stopped_at = now + kStoppedInterval;
  const auto answers = ReadHoldAnswers(
      slots, [look](const base::ProcessId& process) { return look && Stands(process); }, attempt.ordered,
      now);
  if (attempt.confirmed)
    Confirm(job, attempt, slots, answers);
  else
    Decide(job, attempt, slots, answers);
  if (attempt.ended) return;
  if (!answers.again.empty() && now >= attempt.again_at) {
    attempt.again_at = now + kReorderInterval;
    for (const auto& process : answers.again) (void)shims_.Order(job, process, Hold(attempt));
  }
  if (now >= attempt.poll.due())
    attempt.poll.Checked(now,
                         !answers.again.empty() || std::any_of(slots.begin(), slots.end(), AnswersSilently));
  SetTimer(job, attempt);
}

void JobQuiescer::AwaitOpening(base::JobId job, Attempt& attempt, const Slots& slots) {
  const auto now = clock_.Mono(), latest = attempt.began + (attempt.deadline - attempt.began) / kOpeningPart;
  attempt.opening = now < latest && AreOpening(slots, Stands);
  if (!attempt.opening) {
    attempt.ordered = now;
    OrderHold(job, attempt);
  }
  if (!attempt.ended) SetTimer(job, attempt);
}

// Finds the cut: lets single calls through where units wait for each other.
void JobQuiescer::Decide(base::JobId job, Attempt& attempt, const Slots& slots, const HoldAnswers& answers) {
  auto view = QuiesceViewOf(slots, attempt.state);
  view.broken = !answers.why.empty();
  const auto now = clock_.Mono();
  const auto decision = attempt.planner.Decide(view, now);
  if (decision.kind == share::QuiesceDecision::Kind::kFailed)
    return view.broken ? End(job, attempt, {.why = answers.why}) : EndWithout(job, attempt, slots);
  if (decision.kind == share::QuiesceDecision::Kind::kRested) {
    attempt.confirmed = now;
    attempt.look_at = base::MonoTime::max();
    if (attempt.several) return OrderHold(job, attempt);
    return Confirm(job, attempt, slots, answers);
  }
  attempt.look_at = decision.look_at;
  // Another may have come since.
  if (const bool several = view.units.size() > 1; several && !std::exchange(attempt.several, true))
    OrderHold(job, attempt);
  for (const auto& order : decision.grants) GrantCalls(job, attempt, order);
}

// The job rests when each process says that it is held by an order that lasts. One that has come meanwhile,
// or works again, is brought to rest anew.
void JobQuiescer::Confirm(base::JobId job, Attempt& attempt, const Slots& slots, const HoldAnswers& answers) {
  const auto now = clock_.Mono();
  if (answers.all_held) return End(job, attempt, {.rested = true});
  if (!answers.why.empty()) return End(job, attempt, {.why = answers.why});
  if (now >= attempt.deadline) return EndWithout(job, attempt, slots);
  if (now < *attempt.confirmed + kConfirms) return;
  attempt.confirmed.reset();
  attempt.calls += attempt.planner.figures().calls;
  attempt.state.grants.clear();
  attempt.planner = NewPlanner(std::move(attempt.planner).Take(), now, attempt.deadline);
  attempt.look_at = now;
  if (attempt.several) OrderHold(job, attempt);
}

// Without a number the process has just ended, and its grant with it.
void JobQuiescer::GrantCalls(base::JobId job, Attempt& attempt, const share::GateCallGrant& order) {
  const auto number = shims_.GrantCalls(
      job, order.unit.process, {order.unit.gpu, order.calls, order.stride, order.careful, order.behind});
  if (number) attempt.state.grants[order.unit.process] = {order.unit, *number};
}

void JobQuiescer::EndWithout(base::JobId job, Attempt& attempt, const Slots& slots) {
  auto why = WhyNot(job, slots);
  if (!call_grants_ && attempt.several)
    why += "; share.step is off, so its processes may wait for each other";
  End(job, attempt, {.late = clock_.Mono() >= attempt.deadline, .why = std::move(why)});
}

std::string JobQuiescer::WhyNot(base::JobId job, const Slots& slots) const {
  const auto gpus = shims_.GpusOf(job);
  return WhyNotAtRest(slots, [&](unsigned gpu) -> std::string {
    return gpu < gpus.size() && !gpus[gpu].empty() ? name_of_gpu_(gpus[gpu]) : "a GPU";
  });
}

void JobQuiescer::End(base::JobId job, Attempt& attempt, Result result) {
  attempt.ended = true;
  attempt.timer.reset();
  const auto figures = attempt.planner.figures();
  const auto took = clock_.Mono() - attempt.began;
  result.calls = CallsOf(attempt);
  result.took = InMillis(took);
  result.count = CountAtRest(SlotsOf(job, attempt));
  Count(totals_[attempt.several ? 1 : 0], result, took);
  spdlog::debug("job {} {} after {} ms: {} calls let through in {} rounds, {} leaps", job.value,
                result.rested ? "rests" : "does not rest", result.took.count(), result.calls, figures.rounds,
                figures.leaps);
  if (attempt.several)
    history_[job] = std::move(attempt.planner).Take();
  else if (!attempt.only)
    history_.erase(job);
  boost::asio::post(loop_, self_.Bind([job, id = attempt.id, result = std::move(result)](JobQuiescer& me) {
    const auto it = me.attempts_.find(job);
    if (it == me.attempts_.end() || it->second.id != id) return;  // cancelled meanwhile
    const auto done = std::move(it->second.done);
    me.attempts_.erase(it);
    done(result);
  }));
}

void JobQuiescer::SetTimer(base::JobId job, Attempt& attempt) {
  const auto now = clock_.Mono();
  if (!attempt.timer) attempt.timer = std::make_unique<boost::asio::steady_timer>(loop_);
  auto due = std::min(attempt.poll.due(), std::max(attempt.look_at, now));
  if (attempt.several || attempt.opening) due = std::min(due, now + kRestPollInterval);
  attempt.timer->expires_at(now < attempt.deadline ? std::min(due, attempt.deadline) : due);
  attempt.timer->async_wait(self_.Bind([job](JobQuiescer& me, boost::system::error_code error) {
    if (!error) me.Check(job);
  }));
}

}  // namespace gpuman::daemon
