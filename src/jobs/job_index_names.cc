// Finds jobs by what users call them: tags, ids, arrays and their tasks.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/parse_number.h"
#include "jobs/job_index.h"

namespace gpuman::jobs {

using base::ErrorCode;
using base::Fail;
using base::Result;

std::optional<JobId> JobIndex::NewestOf(const std::string& tag, std::optional<uid_t> user) const {
  const std::size_t hash = std::hash<std::string>()(tag);
  std::optional<JobId> best;
  bool best_ended = true;
  auto uid = user.value_or(std::numeric_limits<uid_t>::max());
  for (;;) {
    auto at = tags_.upper_bound({hash, uid, JobId{INT64_MAX}});
    std::optional<JobId> newest;  // of this user's jobs
    while (at != tags_.begin()) {
      const auto& [its_hash, its_user, id] = *--at;
      if (its_hash != hash || (user && its_user != *user)) break;
      if (newest && its_user != uid) break;
      uid = its_user;
      const Job& job = At(id);
      if (job.tag != tag) continue;
      if (!newest || !IsEnded(job)) newest = id;
      if (!IsEnded(job)) break;
    }
    if (!newest) return best;
    const bool ended = IsEnded(At(*newest));
    if (!best || (best_ended && !ended) || (best_ended == ended && *newest > *best)) {
      best = newest;
      best_ended = ended;
    }
    if (user || uid == 0) return best;
    --uid;
  }
}

const Job* JobIndex::HolderOf(const std::string& tag, JobId but) const {
  const std::size_t hash = std::hash<std::string>()(tag);
  for (auto at = tags_.lower_bound({hash, 0, JobId{INT64_MIN}});
       at != tags_.end() && std::get<0>(*at) == hash; ++at) {
    const JobId id = std::get<2>(*at);
    const Job& job = At(id);
    if (id != but && job.tag == tag && !IsEnded(job)) return &job;
  }
  return nullptr;
}

Result<> JobIndex::TagIsFree(const std::string& tag, JobId but) const {
  const Job* const holder = HolderOf(tag, but);
  if (!holder) return {};
  return Fail(ErrorCode::kAlreadyExists,
              fmt::format("the tag {} is taken by job {}, which is {}", tag, holder->id.value,
                          ToString(holder->state)),
              "choose another tag, or `gpuman remove` that job first");
}

Result<JobId> JobIndex::Resolve(const std::string& ref) const {
  // A tag is never a number.
  if (const auto number = base::ParseNumber<std::int64_t>(ref)) {
    if (entries_.contains({*number})) return JobId{*number};
    return Fail(NoSuchJob(ref));
  }
  if (const auto id = NewestOf(ref, std::nullopt)) return *id;
  return Fail(NoSuchJob(ref));
}

Result<JobId> JobIndex::Resolve(const std::string& ref, uid_t user) const {
  if (const auto id = NewestOf(ref, user)) return *id;
  return Resolve(ref);
}

std::vector<JobId> JobIndex::Named(const std::string& tag, std::optional<uid_t> user, Which which) const {
  constexpr int kMaxTried = 1000;  // the tasks of a large array lie between two names
  const std::size_t hash = std::hash<std::string>()(tag);
  std::vector<JobId> found;
  auto at = tags_.upper_bound({hash, user.value_or(std::numeric_limits<uid_t>::max()), JobId{INT64_MAX}});
  for (int tried = 0; tried < kMaxTried && at != tags_.begin() && found.size() < kMaxNamed; ++tried) {
    const auto& [its_hash, its_user, id] = *--at;
    if (its_hash != hash || (user && its_user != *user)) break;
    const Job& job = At(id);
    if (job.tag != tag || (which == Which::kOpen && IsEnded(job))) continue;
    found.push_back(job.array.array.value != 0 ? job.array.array : id);
    // Skips the other tasks, whose ids come directly below.
    if (job.array.array.value != 0) at = tags_.lower_bound({hash, its_user, job.array.array});
  }
  return found;
}

std::string JobIndex::NameOf(const Job& job) const {
  return Named(job.tag, std::nullopt, Which::kAll).size() < 2 ? job.tag : std::to_string(job.id.value);
}

// Tasks have consecutive ids, with gaps where tasks were forgotten, mostly the first ones.
std::vector<JobId> JobIndex::TasksOf(JobId head) const {
  std::vector<JobId> ids;
  for (auto it = entries_.lower_bound(head); it != entries_.end(); ++it) {
    const bool belongs = it->second.job.array.array == head;
    if (!belongs && it->first != head) break;
    ids.push_back(it->first);
    if (!belongs) break;
  }
  return ids;
}

// A binary search: the ids of tasks ascend with their numbers. Each step looks at the first remaining task at
// an id or behind it.
std::optional<JobId> JobIndex::TaskOf(JobId array, std::int64_t task) const {
  // The id of task n is at most n behind the array's id: ids were given without gaps, numbers may have some.
  JobId low = array, high = {array.value + std::max<std::int64_t>(task, 0) + 1};
  while (low < high) {
    const JobId middle{low.value + (high.value - low.value) / 2};
    const auto it = entries_.lower_bound(middle);
    const bool belongs = it != entries_.end() && it->second.job.array.array == array;
    if (belongs && it->second.job.array.task == task) return it->first;
    if (belongs && it->second.job.array.task < task)
      low = {it->first.value + 1};
    else
      high = middle;
  }
  return std::nullopt;
}

}  // namespace gpuman::jobs
