#include "daemon/shims/job_rest.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "daemon/shims/hold_answers.h"
#include "daemon/shims/stopped.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::MemoryStage;
using ledger::wire::OrderKind;

constexpr base::Millis kFirstLook{3};   // after the order
constexpr base::Millis kLook{2};        // while processes may wait for each other
constexpr base::Millis kHoldsOn{1000};  // a hold that is not made to last ends so long after the attempt
// Processes may take this part of the limit to take up an order to run.
constexpr int kOpeningPart = 2;

bool AnswersSilently(const ledger::SlotStatus& one) {
  return !one.answered && !one.notifies && one.stage != MemoryStage::kNone;
}

bool Stands(const base::ProcessId& process) { return IsStopped(process).has_value(); }

bool AreSeveral(const std::vector<ledger::SlotStatus>& slots) {
  return std::count_if(slots.begin(), slots.end(),
                       [](const ledger::SlotStatus& one) { return one.stage != MemoryStage::kNone; }) > 1;
}

base::Millis InMillis(share::Span span) { return std::chrono::duration_cast<base::Millis>(span); }

}  // namespace

JobRest::JobRest(boost::asio::io_context& loop, const base::Clock& clock, ShimChannel& shims,
                 NameOfGpu name_of_gpu)
    : loop_(loop),
      clock_(clock),
      shims_(shims),
      name_of_gpu_(std::move(name_of_gpu)),
      self_(std::make_shared<JobRest*>(this)) {}

JobRest::~JobRest() { *self_ = nullptr; }

JobRest::AttemptId JobRest::Begin(base::JobId job, base::Millis limit, Done done) {
  attempts_.erase(job);
  std::erase_if(memory_, [this](const auto& each) { return !shims_.Has(each.first); });
  const auto now = clock_.Mono(), deadline = now + limit;
  share::Cut cut(share::CutSettings{}, memory_[job], now, deadline);
  Attempt& attempt =
      attempts_
          .emplace(
              job,
              Attempt{++last_, now, deadline, std::move(done), AnswerPoll(kFirstLook), std::move(cut), {}})
          .first->second;
  const auto slots = shims_.SlotStatusesOf(job);
  attempt.several = AreSeveral(slots);
  attempt.opening = AreOpening(slots, Stands);
  if (attempt.opening)
    SetTimer(job, attempt);
  else
    OrderHold(job, attempt);
  return attempt.id;
}

void JobRest::OrderHold(base::JobId job, Attempt& attempt) {
  attempt.ordered = clock_.Mono();
  attempt.poll.Ordered(attempt.ordered);
  if (const auto told = shims_.OrderAll(job, Hold(attempt)); !told)
    End(job, attempt, {.why = told.error().message});
  else
    SetTimer(job, attempt);
}

void JobRest::Cancel(base::JobId job) { attempts_.erase(job); }

void JobRest::Cancel(base::JobId job, AttemptId attempt) {
  const auto found = attempts_.find(job);
  if (found != attempts_.end() && found->second.id == attempt) attempts_.erase(found);
}

void JobRest::OnNotify(base::JobId job) { Check(job); }

// One process cannot be held in part, so its hold lasts from the begin.
ledger::Command JobRest::Hold(const Attempt& attempt) const {
  ledger::Command command{OrderKind::kHold};
  if (attempt.several && !attempt.confirming)
    command.patience = InMillis(attempt.deadline - attempt.began) + kHoldsOn;
  return command;
}

void JobRest::Check(base::JobId job) {
  const auto it = attempts_.find(job);
  if (it == attempts_.end() || it->second.ended) return;
  Attempt& attempt = it->second;
  const auto now = clock_.Mono();
  const auto slots = shims_.SlotStatusesOf(job);
  if (attempt.opening) {
    const auto latest = attempt.began + (attempt.deadline - attempt.began) / kOpeningPart;
    attempt.opening = now < latest && AreOpening(slots, Stands);
    return attempt.opening ? SetTimer(job, attempt) : OrderHold(job, attempt);
  }
  // A process that has come since may wait for the first.
  attempt.several = attempt.several || AreSeveral(slots);
  const auto answers = ReadHoldAnswers(slots, Stands, attempt.ordered, attempt.deadline, now);
  if (answers.all_held) {
    if (!attempt.several || attempt.confirming) return End(job, attempt, {.rested = true});
    attempt.confirming = true;
    attempt.poll.Ordered(now);
    (void)shims_.OrderAll(job, Hold(attempt));
  } else if (!answers.why.empty()) {
    const bool late = now >= attempt.deadline;
    return End(job, attempt, {.late = late, .why = late ? WhyNot(job, slots) : answers.why});
  } else if (answers.again) {
    (void)shims_.OrderAll(job, Hold(attempt));
  } else if (attempt.several && !attempt.confirming) {
    Bring(job, attempt, slots);
    if (attempt.ended) return;
  }
  if (now >= attempt.poll.due())
    attempt.poll.Looked(now, answers.again || std::any_of(slots.begin(), slots.end(), AnswersSilently));
  SetTimer(job, attempt);
}

// Lets single calls through where processes wait for each other.
void JobRest::Bring(base::JobId job, Attempt& attempt, const std::vector<ledger::SlotStatus>& slots) {
  const auto decision = attempt.cut.Decide(CutViewOf(slots, attempt.grants), clock_.Mono());
  const bool rested = decision.kind == share::CutDecision::Kind::kRested;  // the shims say so in a moment
  attempt.look_at = rested ? base::MonoTime::max() : decision.look_at;
  if (decision.kind == share::CutDecision::Kind::kFailed)
    return End(job, attempt, {.late = clock_.Mono() >= attempt.deadline, .why = WhyNot(job, slots)});
  for (const auto& order : decision.steps) Grant(job, attempt, order);
}

// Without a number the process has just ended, and its grant with it.
void JobRest::Grant(base::JobId job, Attempt& attempt, const share::StepOrder& order) {
  const auto number = shims_.Step(job, order.unit.process,
                                  {order.unit.gpu, order.calls, order.stride, order.careful, order.behind});
  if (number) attempt.grants[order.unit.process] = OpenGrant{order.unit, *number};
}

std::string JobRest::WhyNot(base::JobId job, const std::vector<ledger::SlotStatus>& slots) const {
  const auto gpus = shims_.GpusOf(job);
  return WhyNotAtRest(slots, [&](unsigned gpu) -> std::string {
    return gpu < gpus.size() && !gpus[gpu].empty() ? name_of_gpu_(gpus[gpu]) : "a GPU";
  });
}

void JobRest::End(base::JobId job, Attempt& attempt, Result result) {
  attempt.ended = true;
  attempt.timer.reset();
  const auto figures = attempt.cut.figures();
  result.steps = figures.steps;
  result.took = InMillis(clock_.Mono() - attempt.began);
  spdlog::debug("job {} {} after {} ms: {} calls let through in {} rounds, {} leaps", job.value,
                result.rested ? "rests" : "does not rest", result.took.count(), figures.steps, figures.rounds,
                figures.leaps);
  if (attempt.several)
    memory_[job] = std::move(attempt.cut).Take();
  else
    memory_.erase(job);
  boost::asio::post(loop_, [self = self_, job, id = attempt.id, result = std::move(result)] {
    if (!*self) return;
    const auto it = (*self)->attempts_.find(job);
    if (it == (*self)->attempts_.end() || it->second.id != id) return;  // cancelled meanwhile
    const auto done = std::move(it->second.done);
    (*self)->attempts_.erase(it);
    done(result);
  });
}

void JobRest::SetTimer(base::JobId job, Attempt& attempt) {
  const auto now = clock_.Mono();
  if (!attempt.timer) attempt.timer = std::make_unique<boost::asio::steady_timer>(loop_);
  auto due = std::min(attempt.poll.due(), std::max(attempt.look_at, now));
  if (attempt.several || attempt.opening) due = std::min(due, now + kLook);
  attempt.timer->expires_at(now < attempt.deadline ? std::min(due, attempt.deadline) : due);
  attempt.timer->async_wait([self = self_, job](boost::system::error_code error) {
    if (!error && *self) (*self)->Check(job);
  });
}

}  // namespace gpuman::daemon
