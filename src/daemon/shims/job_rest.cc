#include "daemon/shims/job_rest.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "daemon/shims/hold_answers.h"
#include "daemon/shims/stopped.h"

namespace gpuman::daemon {
namespace {

constexpr base::Millis kFirstLook{3};  // after the order

bool AnswersSilently(const ledger::SlotStatus& one) {
  return !one.answered && !one.notifies && one.stage != ledger::wire::MemoryStage::kNone;
}

}  // namespace

JobRest::JobRest(boost::asio::io_context& loop, const base::Clock& clock, ShimChannel& shims)
    : loop_(loop), clock_(clock), shims_(shims), self_(std::make_shared<JobRest*>(this)) {}

JobRest::~JobRest() { *self_ = nullptr; }

void JobRest::Begin(base::JobId job, base::Millis limit, Done done) {
  attempts_.erase(job);
  const auto now = clock_.Mono();
  Attempt& attempt =
      attempts_
          .emplace(job, Attempt{++last_, now, now + limit, std::move(done), AnswerPoll(kFirstLook), {}})
          .first->second;
  attempt.poll.Ordered(now);
  if (const auto told = shims_.OrderAll(job, {ledger::wire::OrderKind::kHold}); !told)
    return End(job, attempt, {.why = told.error().message});
  SetTimer(job, attempt);
}

void JobRest::Cancel(base::JobId job) { attempts_.erase(job); }

void JobRest::OnNotify(base::JobId job) { Check(job); }

void JobRest::Check(base::JobId job) {
  const auto it = attempts_.find(job);
  if (it == attempts_.end() || it->second.ended) return;
  Attempt& attempt = it->second;
  const auto now = clock_.Mono();
  const auto slots = shims_.SlotStatusesOf(job);
  const auto answers = ReadHoldAnswers(
      slots, [](const base::ProcessId& process) { return IsStopped(process).has_value(); }, attempt.began,
      attempt.deadline, now);
  if (answers.all_held) return End(job, attempt, {.rested = true});
  if (!answers.why.empty()) return End(job, attempt, {.why = answers.why});
  if (answers.again) (void)shims_.OrderAll(job, {ledger::wire::OrderKind::kHold});
  if (now >= attempt.poll.due())
    attempt.poll.Looked(now, answers.again || std::any_of(slots.begin(), slots.end(), AnswersSilently));
  SetTimer(job, attempt);
}

void JobRest::End(base::JobId job, Attempt& attempt, Result result) {
  attempt.ended = true;
  attempt.timer.reset();
  result.took = std::chrono::duration_cast<base::Millis>(clock_.Mono() - attempt.began);
  boost::asio::post(loop_, [self = self_, job, number = attempt.number, result = std::move(result)] {
    if (!*self) return;
    const auto it = (*self)->attempts_.find(job);
    if (it == (*self)->attempts_.end() || it->second.number != number) return;  // cancelled meanwhile
    const auto done = std::move(it->second.done);
    (*self)->attempts_.erase(it);
    done(result);
  });
}

void JobRest::SetTimer(base::JobId job, Attempt& attempt) {
  const auto now = clock_.Mono();
  if (!attempt.timer) attempt.timer = std::make_unique<boost::asio::steady_timer>(loop_);
  const auto due = attempt.poll.due();
  attempt.timer->expires_at(now < attempt.deadline ? std::min(due, attempt.deadline) : due);
  attempt.timer->async_wait([self = self_, job](boost::system::error_code error) {
    if (!error && *self) (*self)->Check(job);
  });
}

}  // namespace gpuman::daemon
