#include "jobs/user_usage_tracker.h"

#include "jobs/bounds.h"

namespace gpuman::jobs {

using base::Result;

UserUsageTracker::Entry UserUsageTracker::EntryOf(const Job& job) {
  const bool ended = IsEnded(job);
  return {job.owner->uid, ended, !ended && !IsWaiting(job) && !job.attached, TextAccount::EntryOf(job)};
}

void UserUsageTracker::Count(const std::optional<Entry>& before, const std::optional<Entry>& now) {
  // Removes the old entry first: shared values are identified by address, which another value may have by
  // now.
  if (before) {
    const auto it = users_.find(before->user);
    Totals& totals = it->second;
    (before->ended ? totals.ended : totals.open).Remove(before->text);
    if (before->running) --totals.running;
    if (--totals.jobs == 0 && !(now && now->user == before->user)) users_.erase(it);
  }
  if (!now) return;
  Totals& totals = users_[now->user];
  (now->ended ? totals.ended : totals.open).Add(now->text);
  if (now->running) ++totals.running;
  ++totals.jobs;
}

Result<> UserUsageTracker::MayAddText(const JobOwner& owner, base::Bytes claimed, base::Bytes more,
                                      const UserBounds& bounds) const {
  if (owner.uid == 0) return {};
  const auto it = users_.find(owner.uid);
  const base::Bytes held = it == users_.end() ? base::Bytes{} : it->second.open.bytes();
  return CheckText(owner.user, held + claimed, more, bounds.text);
}

// A shared value stays in the account as long as another job has it, so only the sum shows what a change
// adds.
Result<> UserUsageTracker::MayChangeText(const Entry& counted, const Job& changed, const UserBounds& bounds) {
  if (counted.user == 0) return {};
  TextAccount& open = users_.at(counted.user).open;
  const auto text = TextAccount::EntryOf(changed);
  const base::Bytes before = open.bytes();
  open.Remove(counted.text);
  const base::Bytes after = open.bytes() + open.More(text);
  open.Add(counted.text);
  if (after <= before) return {};
  return CheckText(changed.owner->user, before, after - before, bounds.text);
}

Result<> UserUsageTracker::MayBegin(const Job& job, const UserBounds& bounds) const {
  const auto& owner = *job.owner;
  if (owner.uid == 0) return {};
  const auto it = users_.find(owner.uid);
  const auto text = TextAccount::EntryOf(job);
  GPUMAN_TRY(MayAddText(owner, {}, it == users_.end() ? TextAccount().More(text) : it->second.open.More(text),
                        bounds));
  if (job.queued) return {};
  return CheckRunning(owner.user, it == users_.end() ? 0 : it->second.running, bounds.running);
}

bool UserUsageTracker::HasTooManyEnded(uid_t user, const UserBounds& bounds) const {
  const auto it = users_.find(user);
  const auto bound = bounds.text.count;
  return bound > 0 && it != users_.end() && it->second.ended.bytes().count > bound + bound / 20;
}

std::map<uid_t, TextAccount> UserUsageTracker::TooManyEnded(const UserBounds& bounds) const {
  std::map<uid_t, TextAccount> accounts;
  for (const auto& [user, totals] : users_)
    if (HasTooManyEnded(user, bounds)) accounts.emplace(user, totals.ended);
  return accounts;
}

}  // namespace gpuman::jobs
