// The jobs of one user, and their bounds.
#include "jobs/bounds.h"
#include "jobs/job_manager.h"

namespace gpuman::jobs {

using base::Result;

void JobManager::CountAs(Entry& entry, const Counted& counted) {
  const Counted before = entry.counted;
  if (before == counted) return;
  entry.counted = counted;
  // Removes the old entry first: shared values are identified by address, which another value may have by
  // now.
  if (before.is) {
    const auto it = users_.find(before.user);
    UserTotals& totals = it->second;
    (before.ended ? totals.ended : totals.open).Remove(before.text);
    if (before.running) --totals.running;
    if (--totals.jobs == 0 && !(counted.is && counted.user == before.user)) users_.erase(it);
  }
  if (!counted.is) return;
  UserTotals& totals = users_[counted.user];
  (counted.ended ? totals.ended : totals.open).Add(counted.text);
  if (counted.running) ++totals.running;
  ++totals.jobs;
}

Result<> JobManager::MayAddText(const Owner& owner, base::Bytes claimed, base::Bytes more) const {
  if (owner.uid == 0) return {};
  const auto it = users_.find(owner.uid);
  const base::Bytes held = it == users_.end() ? base::Bytes{} : it->second.open.bytes();
  return CheckText(owner.user, held + claimed, more, options_.text_of_user);
}

// A shared value stays in the account as long as another job has it, so only the sum shows what a change
// adds.
Result<> JobManager::MayChangeText(JobId id, const Job& changed) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || IsEnded(it->second.job) || it->second.counted.user == 0) return {};
  const Counted& counted = it->second.counted;
  TextAccount& open = users_.at(counted.user).open;
  const auto text = TextAccount::EntryOf(changed);
  const base::Bytes before = open.bytes();
  open.Remove(counted.text);
  const base::Bytes after = open.bytes() + open.More(text);
  open.Add(counted.text);
  if (after <= before) return {};
  return CheckText(changed.owner->user, before, after - before, options_.text_of_user);
}

Result<> JobManager::MayBegin(const Job& job) const {
  const auto& owner = *job.owner;
  if (owner.uid == 0) return {};
  const auto it = users_.find(owner.uid);
  const auto text = TextAccount::EntryOf(job);
  GPUMAN_TRY(
      MayAddText(owner, {}, it == users_.end() ? TextAccount().More(text) : it->second.open.More(text)));
  if (job.queued) return {};
  return CheckRunning(owner.user, it == users_.end() ? 0 : it->second.running, options_.running_of_user);
}

bool JobManager::HasTooManyEnded(uid_t user) const {
  const auto it = users_.find(user);
  const auto bound = options_.text_of_user.count;
  return bound > 0 && it != users_.end() && it->second.ended.bytes().count > bound + bound / 20;
}

}  // namespace gpuman::jobs
