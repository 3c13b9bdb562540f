#include "notify/outbox.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace gpuman::notify {
namespace {

constexpr std::size_t kUsersWorth = 10;   // the total room is this many times the room of one user
constexpr std::size_t kMaxFailed = 1000;  // kept for users to look at

}  // namespace

bool Outbox::HasRoom(const std::string& user) const {
  const auto it = of_user_.find(user);
  const std::size_t waiting = entries_.size() - failed_.size();
  return (it == of_user_.end() || it->second < settings_.per_user) &&
         waiting < kUsersWorth * settings_.per_user;
}

void Outbox::Add(OutboxMessage message, bool stored) {
  const std::int64_t number = message.number;
  const auto [it, fresh] = entries_.try_emplace(number, Entry{std::move(message), stored});
  if (!fresh) return;
  const OutboxMessage& mine = it->second.message;
  if (mine.job) of_job_[*mine.job].insert(number);
  if (mine.failed) {
    failed_.insert(number);
    return;
  }
  receivers_[ReceiverOf(mine)].insert(number);
  ++of_user_[mine.user];
}

void Outbox::Stored(std::int64_t number) {
  if (const auto it = entries_.find(number); it != entries_.end()) it->second.stored = true;
}

base::WallTime Outbox::DueOf(const OutboxMessage& message, base::WallTime now) const {
  return message.next > now + settings_.retry.longest ? now : message.next;
}

// Whether the receiver's first message is stored and not in flight.
bool Outbox::MayGo(const std::set<std::int64_t>& queue) const {
  return entries_.at(*queue.begin()).stored && !in_flight_.contains(*queue.begin());
}

std::vector<OutboxMessage> Outbox::TakeDue(base::WallTime now) {
  std::vector<std::pair<base::WallTime, std::int64_t>> due;
  if (in_flight_.size() >= settings_.in_flight) return {};
  for (const auto& [name, queue] : receivers_) {
    if (!MayGo(queue)) continue;
    if (const auto at = DueOf(entries_.at(*queue.begin()).message, now); at <= now)
      due.emplace_back(at, *queue.begin());
  }
  std::sort(due.begin(), due.end());
  std::map<std::string, std::size_t> flying;
  for (const std::int64_t number : in_flight_) ++flying[entries_.at(number).message.user];
  const std::size_t most = std::max<std::size_t>(1, settings_.in_flight / 2);
  std::vector<OutboxMessage> taken;
  for (const auto& [at, number] : due) {
    if (in_flight_.size() >= settings_.in_flight) break;
    const OutboxMessage& message = entries_.at(number).message;
    if (flying[message.user] >= most) continue;
    ++flying[message.user];
    in_flight_.insert(number);
    taken.push_back(message);
  }
  return taken;
}

std::optional<base::WallTime> Outbox::NextDue(base::WallTime now) const {
  if (in_flight_.size() >= settings_.in_flight) return std::nullopt;
  std::optional<base::WallTime> next;
  for (const auto& [name, queue] : receivers_) {
    if (!MayGo(queue)) continue;
    const auto at = DueOf(entries_.at(*queue.begin()).message, now);
    // A due message that was not taken waits until RecordAttempt for another message of its user.
    if (at > now && (!next || at < *next)) next = at;
  }
  return next;
}

void Outbox::Leave(const OutboxMessage& message) {
  const auto queue = receivers_.find(ReceiverOf(message));
  queue->second.erase(message.number);
  if (queue->second.empty()) receivers_.erase(queue);
  const auto user = of_user_.find(message.user);
  if (--user->second == 0) of_user_.erase(user);
}

std::optional<Outbox::AttemptResult> Outbox::RecordAttempt(std::int64_t number, const Attempt& attempt,
                                                           base::WallTime now) {
  if (in_flight_.erase(number) == 0) return std::nullopt;
  const auto it = entries_.find(number);
  OutboxMessage& message = it->second.message;
  AttemptResult result;
  result.outcome = Judge(message, attempt);
  ++message.attempts;
  message.problem = ProblemOf(message, attempt);
  const auto seed = std::hash<std::string>()(message.delivery);
  message.next = now + DelayOf(settings_.retry, message.attempts, seed, attempt.retry_after);
  if (result.outcome == DeliveryOutcome::kRetry && now - message.made >= settings_.retry.give_up)
    result.outcome = DeliveryOutcome::kGivenUp;
  if (result.outcome != DeliveryOutcome::kRetry) Leave(message);
  message.failed = result.outcome == DeliveryOutcome::kGivenUp;
  // The time for which a failed message is kept begins with its last attempt.
  if (message.failed) {
    message.next = now;
    failed_.insert(number);
  }
  result.message = message;
  if (result.outcome == DeliveryOutcome::kDelivered) {
    if (message.job)
      if (auto job = of_job_.find(*message.job);
          job != of_job_.end() && job->second.erase(number) > 0 && job->second.empty())
        of_job_.erase(job);
    entries_.erase(it);
  }
  return result;
}

std::vector<std::int64_t> Outbox::Prune(base::WallTime now) {
  std::vector<std::int64_t> gone;
  std::size_t left = failed_.size();
  for (const std::int64_t number : failed_) {
    if (left > kMaxFailed || entries_.at(number).message.next + settings_.keep_failed <= now) {
      gone.push_back(number);
      --left;
    }
  }
  for (const std::int64_t number : gone) {
    const auto it = entries_.find(number);
    if (const auto& job = it->second.message.job) {
      auto& numbers = of_job_[*job];
      numbers.erase(number);
      if (numbers.empty()) of_job_.erase(*job);
    }
    entries_.erase(it);
    failed_.erase(number);
  }
  return gone;
}

std::vector<const OutboxMessage*> Outbox::OfJob(std::int64_t job) const {
  std::vector<const OutboxMessage*> messages;
  if (const auto it = of_job_.find(job); it != of_job_.end())
    for (const std::int64_t number : it->second) messages.push_back(&entries_.at(number).message);
  return messages;
}

}  // namespace gpuman::notify
