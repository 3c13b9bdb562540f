#include "daemon/queue/job_references.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/queue/job_names.h"
#include "jobs/job_manager.h"

namespace gpuman::daemon {
namespace {

using base::Fail;
using base::JobId;
using base::Result;

constexpr std::size_t kRecent = 1000;  // jobs of a user

}  // namespace

void JobReferences::Remember(const jobs::Job& job) {
  if (!job.queued || (job.array.array.value != 0 && job.array.array != job.id)) return;
  auto& mine = recent_[job.owner->uid];
  // A large submission gets its ids long before its jobs arrive here, so ids may arrive out of order.
  const auto place = std::lower_bound(mine.begin(), mine.end(), job.id);
  if (place != mine.end() && *place == job.id) return;
  mine.insert(place, job.id);
  if (mine.size() > kRecent) mine.pop_front();
}

queue::ReferenceLookup JobReferences::LookupFor(uid_t user) const {
  return [this, user](const queue::Reference& reference) -> std::vector<JobId> {
    using Kind = queue::Reference::Kind;
    switch (reference.kind) {
      case Kind::kId:
        return jobs_.index().TasksOf(reference.id);
      case Kind::kTask:
        if (const auto id = jobs_.index().TaskOf(reference.id, reference.task)) return {*id};
        return {};
      case Kind::kRecent: {
        const auto mine = recent_.find(user);
        if (mine == recent_.end() || static_cast<std::size_t>(reference.back) >= mine->second.size())
          return {};
        return jobs_.index().TasksOf(
            mine->second[mine->second.size() - 1 - static_cast<std::size_t>(reference.back)]);
      }
      case Kind::kTag: {
        if (const auto id = jobs_.index().Resolve(reference.tag, user)) {
          const auto* const job = jobs_.Find(*id);
          return job && job->array.array.value != 0 ? jobs_.index().TasksOf(job->array.array)
                                                    : std::vector{*id};
        }
        const auto split = SplitTask(reference.tag);
        const auto id = split ? TaskNamed(split->first, split->second, user) : std::nullopt;
        return id ? std::vector{*id} : std::vector<JobId>{};
      }
    }
    return {};
  };
}

std::optional<JobId> JobReferences::TaskNamed(const std::string& tag, std::int64_t task, uid_t user) const {
  const auto id = jobs_.index().Resolve(tag, user);
  const auto* const job = id ? jobs_.Find(*id) : nullptr;
  return job && job->array.array.value != 0 ? jobs_.index().TaskOf(job->array.array, task) : std::nullopt;
}

std::optional<JobReferences::NamedJob> JobReferences::FindName(const std::string& text, uid_t user) const {
  const auto reference = queue::ParseReference(text);
  if (!reference || reference->kind != queue::Reference::Kind::kTag) return std::nullopt;
  std::string name = reference->tag;
  auto id = jobs_.index().Resolve(name, user);
  if (const auto split = id ? std::nullopt : SplitTask(name)) {
    name = split->first;
    id = jobs_.index().Resolve(name, user);
  }
  const auto* const job = id ? jobs_.Find(*id) : nullptr;
  if (!job) return std::nullopt;
  return NamedJob{job, name, job->owner->uid == user ? std::optional(user) : std::nullopt};
}

Result<> JobReferences::IsOneJob(const std::string& text, uid_t user) const {
  const auto named = FindName(text, user);
  if (!named || jobs::IsEnded(*named->job)) return {};
  return IsOne(named->name, jobs_.index().Named(named->name, named->among, jobs::JobIndex::Which::kOpen));
}

std::string JobReferences::NoteOnName(const std::string& text, uid_t user) const {
  const auto named = FindName(text, user);
  if (!named) return {};
  const auto& array = named->job->array.array;
  return daemon::NoteOnName(named->name,
                            jobs_.index().Named(named->name, named->among, jobs::JobIndex::Which::kAll),
                            array.value != 0 ? array : named->job->id, jobs::JobIndex::kMaxNamed);
}

Result<std::vector<JobId>> JobReferences::JobsOf(const std::string& text, uid_t user) const {
  GPUMAN_ASSIGN(const auto reference, queue::ParseReference(text));
  auto ids = LookupFor(user)(reference);
  if (ids.empty())
    return Fail(base::ErrorCode::kNotFound, fmt::format("there is no job {}", text),
                "`gpuman queue` and `gpuman status --all` list them");
  return ids;
}

}  // namespace gpuman::daemon
