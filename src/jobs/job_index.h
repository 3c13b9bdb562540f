// All jobs that a daemon manages: keeps them in the order of their ids, finds them by id, tag and state, and
// counts what each user has.
//
// Owns the jobs. Pure: no loop, no store, no clock. Not thread-safe. A pointer or reference to a job is valid
// until the job is erased; what it shows changes with the job.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.h"
#include "jobs/job.h"
#include "jobs/retention.h"
#include "jobs/user_usage_tracker.h"

namespace gpuman::jobs {

// kNotFound. `ref`: as the user named the job.
base::Error NoSuchJob(std::string_view ref);
base::Error NoSuchJob(JobId id);

class JobIndex {
 public:
  // --- Ids ---
  // The id that the next job gets.
  JobId NextId() const { return {last_id_ + 1}; }
  // Reserves `count` ids, which no other job gets, and returns the first.
  JobId Reserve(std::size_t count = 1);
  // Ids up to this one were given by an earlier daemon.
  void SetLastId(std::int64_t id) { last_id_ = id; }

  // --- Jobs come, change and go. A job that is named must be there ---
  // `job` has an id that no other job has.
  const Job& Add(Job job);
  // Puts `job` in the place of the job with its id, and returns the job as it was.
  Job Replace(Job job);
  template <typename F>
  const Job& Change(JobId id, F&& change) {
    Entry& entry = entries_.at(id);
    change(entry.job);
    Update(entry);
    return entry.job;
  }
  // The same for facts by which no job is found or counted: not its state, tag, owner, command or spec.
  template <typename F>
  void Amend(JobId id, F&& change) {
    change(entries_.at(id).job);
  }
  void Erase(JobId id);
  // The job is about to be erased, once the store has deleted its record: nothing is written for it any more.
  void SetLeaving(JobId id) { entries_.at(id).leaving = true; }
  // The same for a job that has ended: it is neither listed nor counted any more.
  void Unlist(JobId id);
  // Undoes SetLeaving and Unlist.
  void Keep(JobId id);
  bool IsLeaving(JobId id) const;

  // --- One job ---
  // nullptr: no such job.
  const Job* Find(JobId id) const;
  const Job& At(JobId id) const { return entries_.at(id).job; }
  // kNotFound: there is no such job; Kept: or it is leaving.
  base::Result<const Job*> Existing(JobId id) const;
  base::Result<const Job*> Kept(JobId id) const;
  // The next and the previous job by id; nullptr: there is none.
  const Job* After(JobId id) const;
  const Job* Before(JobId id) const;

  // --- Lists, by id ---
  std::vector<const Job*> Active() const;  // jobs that neither wait nor have ended
  std::vector<JobId> Ended() const { return {ended_.begin(), ended_.end()}; }
  const std::set<JobId>& active_ids() const { return active_; }
  const std::set<JobId>& ended_ids() const { return ended_; }
  // The number of jobs that wait.
  std::size_t WaitingCount() const { return entries_.size() - active_.size() - ended_.size(); }
  // The ended jobs as retention.h judges them.
  std::vector<EndedJob> EndedJobs() const;

  // --- Names (job_index_names.cc) ---
  // Finds a job by id or by tag. By tag: the job with this tag that has not ended, else the newest job with
  // it.
  base::Result<JobId> Resolve(const std::string& ref) const;
  // The same, but a tag means a job of this user first.
  base::Result<JobId> Resolve(const std::string& ref, uid_t user) const;
  // kAlreadyExists: a job other than `but` that has not ended has the tag.
  base::Result<> TagIsFree(const std::string& tag, JobId but = {}) const;
  // The jobs of this tag, of this user or of all users; for an array, the array's id. The newest of a user
  // first; at most kMaxNamed, and the search is limited to a few.
  enum class Which { kOpen, kAll };  // kOpen: those that have not ended
  static constexpr std::size_t kMaxNamed = 9;
  std::vector<JobId> Named(const std::string& tag, std::optional<uid_t> user, Which which) const;
  // How a command can name the job: by its tag, or by its id where another job has the tag.
  std::string NameOf(const Job& job) const;
  // The job itself; or, for an array, its tasks that are not forgotten, by id.
  std::vector<JobId> TasksOf(JobId job_or_array) const;
  // A task of an array; nullopt: it does not exist, or is forgotten.
  std::optional<JobId> TaskOf(JobId array, std::int64_t task) const;

  // --- What users have ---
  const UserUsageTracker& accounts() const { return accounts_; }
  // kUnsatisfiable: the job would take too much text as `changed`. A job that is gone or has ended may.
  base::Result<> MayChangeText(JobId id, const Job& changed, const UserBounds& bounds);

 private:
  struct TagKey {
    std::size_t hash = 0;
    uid_t user = 0;
    friend bool operator==(const TagKey&, const TagKey&) = default;
  };
  struct Entry {
    Job job;
    std::optional<TagKey> tag{};  // under which tags_ has it
    std::optional<UserUsageTracker::Entry> counted{};
    bool leaving = false;
    bool unlisted = false;
  };

  // Lists, counts and names the job as it is now.
  void Update(Entry& entry);
  void CountAs(Entry& entry, const std::optional<UserUsageTracker::Entry>& counted);
  // The job of the tag that has not ended, else the newest; of one user or of all.
  std::optional<JobId> NewestOf(const std::string& tag, std::optional<uid_t> user) const;
  // The job other than `but` that has the tag and has not ended; nullptr: none.
  const Job* HolderOf(const std::string& tag, JobId but) const;

  std::int64_t last_id_ = 0;
  std::map<JobId, Entry> entries_;
  std::set<JobId> active_;
  std::set<JobId> ended_;
  // Jobs, ordered by the hash of the tag and the owner: a user's jobs of one tag are together, the newest
  // last. Jobs of other tags may have the same hash.
  std::set<std::tuple<std::size_t, uid_t, JobId>> tags_;
  UserUsageTracker accounts_;
};

}  // namespace gpuman::jobs
