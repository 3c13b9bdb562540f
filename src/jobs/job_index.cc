#include "jobs/job_index.h"

#include <fmt/format.h>

#include <functional>
#include <iterator>

namespace gpuman::jobs {

using base::Fail;
using base::Result;

base::Error NoSuchJob(std::string_view ref) {
  return {base::ErrorCode::kNotFound, fmt::format("there is no job {}", ref),
          "`gpuman status --all` lists them"};
}

base::Error NoSuchJob(JobId id) { return NoSuchJob(std::to_string(id.value)); }

JobId JobIndex::Reserve(std::size_t count) {
  const JobId first = NextId();
  last_id_ += static_cast<std::int64_t>(count);
  return first;
}

const Job& JobIndex::Add(Job job) {
  // New jobs mostly have the largest id.
  Entry& entry = entries_.try_emplace(entries_.end(), job.id)->second;
  entry.job = std::move(job);
  Update(entry);
  return entry.job;
}

Job JobIndex::Replace(Job job) {
  Entry& entry = entries_.at(job.id);
  Job before = std::exchange(entry.job, std::move(job));
  Update(entry);
  return before;
}

void JobIndex::Update(Entry& entry) {
  const Job& job = entry.job;
  if (!entry.unlisted) {
    const bool ended = IsEnded(job);
    const auto list = [&job](std::set<JobId>& ids, bool is_in) {
      if (is_in)
        ids.insert(job.id);
      else
        ids.erase(job.id);
    };
    list(active_, !ended && !IsWaiting(job));
    list(ended_, ended);
    CountAs(entry, UserUsageTracker::EntryOf(job));
  }
  const TagKey tag{std::hash<std::string>()(job.tag), job.owner->uid};
  if (entry.tag == tag) return;
  if (entry.tag) tags_.erase({entry.tag->hash, entry.tag->user, job.id});
  tags_.emplace(tag.hash, tag.user, job.id);
  entry.tag = tag;
}

void JobIndex::CountAs(Entry& entry, const std::optional<UserUsageTracker::Entry>& counted) {
  if (entry.counted == counted) return;
  accounts_.Count(entry.counted, counted);
  entry.counted = counted;
}

void JobIndex::Erase(JobId id) {
  const auto it = entries_.find(id);
  Entry& entry = it->second;
  active_.erase(id);
  ended_.erase(id);
  CountAs(entry, std::nullopt);
  if (entry.tag) tags_.erase({entry.tag->hash, entry.tag->user, id});
  entries_.erase(it);
}

void JobIndex::Unlist(JobId id) {
  Entry& entry = entries_.at(id);
  entry.leaving = true;
  entry.unlisted = true;
  ended_.erase(id);
  CountAs(entry, std::nullopt);
}

void JobIndex::Keep(JobId id) {
  Entry& entry = entries_.at(id);
  entry.leaving = false;
  if (std::exchange(entry.unlisted, false)) Update(entry);
}

bool JobIndex::IsLeaving(JobId id) const {
  const auto it = entries_.find(id);
  return it != entries_.end() && it->second.leaving;
}

const Job* JobIndex::Find(JobId id) const {
  const auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : &it->second.job;
}

Result<const Job*> JobIndex::Existing(JobId id) const {
  const Job* const job = Find(id);
  if (!job) return Fail(NoSuchJob(id));
  return job;
}

Result<const Job*> JobIndex::Kept(JobId id) const {
  if (IsLeaving(id)) return Fail(NoSuchJob(id));
  return Existing(id);
}

const Job* JobIndex::After(JobId id) const {
  const auto it = entries_.upper_bound(id);
  return it == entries_.end() ? nullptr : &it->second.job;
}

const Job* JobIndex::Before(JobId id) const {
  const auto it = entries_.lower_bound(id);
  return it == entries_.begin() ? nullptr : &std::prev(it)->second.job;
}

std::vector<const Job*> JobIndex::Active() const {
  std::vector<const Job*> jobs;
  jobs.reserve(active_.size());
  for (const JobId id : active_) jobs.push_back(&At(id));
  return jobs;
}

std::vector<EndedJob> JobIndex::EndedJobs() const {
  std::vector<EndedJob> jobs;
  jobs.reserve(ended_.size());
  for (const JobId id : ended_) {
    const Entry& entry = entries_.at(id);
    jobs.push_back(
        {id, entry.counted->user, entry.job.ended_at.value_or(base::WallTime{}), entry.counted->text});
  }
  return jobs;
}

Result<> JobIndex::MayChangeText(JobId id, const Job& changed, const UserBounds& bounds) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || IsEnded(it->second.job) || !it->second.counted) return {};
  return accounts_.MayChangeText(*it->second.counted, changed, bounds);
}

}  // namespace gpuman::jobs
