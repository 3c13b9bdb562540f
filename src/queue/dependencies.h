// Jobs that wait for other jobs: how users write dependencies, whether the dependencies are met, and which
// jobs the daemon must check when a job begins or ends. Pure; values and functions, and one index.
// Thread-compatible.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "queue/job_spec.h"
#include "queue/snapshot.h"

namespace gpuman::queue {

// How users name a job: `7`, `7_3` (task 3 of array 7), `@` (the user's last), `@~2` (two before that), or a
// tag.
struct Reference {
  enum class Kind : std::uint8_t { kId, kTask, kRecent, kTag };
  Kind kind = Kind::kId;
  JobId id{};             // kId, kTask
  std::int64_t task = 0;  // kTask
  int back = 0;           // kRecent
  std::string tag{};      // kTag
  friend bool operator==(const Reference&, const Reference&) = default;
};
base::Result<Reference> ParseReference(std::string_view text);

// Returns the jobs that a reference names: for an array, all its tasks. Empty: there is no such job.
using ReferenceLookup = std::function<std::vector<JobId>(const Reference&)>;
// kInvalidArgument: a name is none of a job. kNotFound: no job has that name; the message names the
// reference. The result has each dependency once.
base::Result<Dependencies> Resolve(const spec::NamedDependencies& named, const ReferenceLookup& lookup);

// The progress of a job that others wait for.
enum class AwaitedJobState : std::uint8_t {
  kWaits,
  kBegan,      // runs, or ran and waits to run again
  kOk,         // ended, with status 0
  kNotOk,      // ended in another way
  kCancelled,  // ended without having begun
  kUnknown,    // not recorded any more
};
using ProgressLookup = std::function<AwaitedJobState(JobId)>;

// A job that is not recorded any more has ended with an unknown status. It meets kAfterAny and kAfter, never
// the other kinds.
DependencyState Judge(const Dependencies& dependencies, const ProgressLookup& progress);

// Finds a circle of dependencies from `job` back to `job`. `dependencies` are those of `job`; `of` returns
// those of another job, or null if that job waits for none. Empty: there is no circle. A list that `of`
// returns for several jobs is looked at once.
std::vector<JobId> FindCircle(JobId job, const Dependencies& dependencies,
                              const std::function<const Dependencies*(JobId)>& of);

// A job that waits for a job that is cancelled.
struct CancelImpact {
  JobId job{};
  JobId on{};
  bool goes = false;  // it can never start then, and is cancelled too
  friend bool operator==(const CancelImpact&, const CancelImpact&) = default;
};

// Records which jobs wait for which jobs, and computes the state of each waiting job. Jobs of a user that
// wait for the same jobs, as the tasks of an array do, share one entry, and the end of a job is counted once:
// 1,000 tasks that wait for 1,000 others cost 2,000 steps, not a million for each that ends.
class Dependents {
 public:
  // Replaces the dependencies of `job`, which is of `user`; an empty list removes the job. Returns the state
  // that follows from `progress`. From then on the caller must call Tell for each job that begins, ends or is
  // forgotten.
  DependencyState Set(JobId job, uid_t user, const Dependencies& dependencies,
                      const ProgressLookup& progress);
  void Erase(JobId job);
  // Takes the progress of `job`. Calls `told` for each job that waits for `job` and whose state changes.
  void Tell(JobId job, AwaitedJobState progress, const std::function<void(JobId, DependencyState)>& told);
  // The jobs that wait for `job`, lowest id first.
  std::vector<JobId> Of(JobId job) const;
  bool Any(JobId job) const { return waited_for_.contains(job.value); }
  // Jobs with the same list get the same pointer.
  const Dependencies* DependenciesOf(JobId job) const;
  // How many dependencies the waiting jobs of the user have. A list that several jobs have counts once.
  std::size_t CountOf(uid_t user) const;
  // How many more CountOf would return if `job` had these.
  std::size_t MoreWith(JobId job, uid_t user, const Dependencies& dependencies) const;
  // How many dependencies Set, Erase and Tell have looked at since the beginning: what they have cost.
  std::uint64_t looks() const { return looks_; }

 private:
  friend class AffectedSearch;
  struct Counts {
    std::size_t waiting = 0, impossible = 0;
    void Add(DependencyState state);
    void Remove(DependencyState state);
    DependencyState State(const Dependencies& dependencies) const;
  };
  struct One {
    DependencyState state;
    std::size_t at;  // in the list of the awaited job
  };
  struct Entry {
    uid_t user{};
    Dependencies dependencies{};
    std::vector<One> each{};  // by place in the list
    Counts counts{};
    std::set<JobId> jobs{};
    DependencyState State() const { return counts.State(dependencies); }
  };
  using EntryPtr = std::shared_ptr<Entry>;  // waiting jobs and awaited jobs share it
  struct Edge {
    EntryPtr entry;
    std::size_t place;  // in its list
  };
  struct Key {
    uid_t user;
    const Dependencies* dependencies;
  };
  struct InOrder {
    bool operator()(const Key& a, const Key& b) const;
  };

  EntryPtr Find(uid_t user, const Dependencies& dependencies) const;
  EntryPtr Make(uid_t user, const Dependencies& dependencies, const ProgressLookup& progress);
  void Drop(const EntryPtr& entry);

  std::unordered_map<std::int64_t, EntryPtr> waits_{};
  std::unordered_map<std::int64_t, std::vector<Edge>> waited_for_{};
  std::map<Key, EntryPtr, InOrder> entries_{};       // the keys point into the entries
  std::unordered_map<uid_t, std::size_t> counts_{};  // of dependencies; none is 0
  EntryPtr last_{};  // neighbours mostly wait for the same jobs; in entries_, or null
  std::uint64_t looks_ = 0;
};

// Finds the jobs that wait for the jobs `cancelled`, then those that wait for them, and so on along the jobs
// that are cancelled too: the first `most` of them. Works in parts, since it may be many. What changes
// between two parts may be in the answer or not.
class AffectedSearch {
 public:
  // `auto_cancel`: whether a job is cancelled when its dependencies can never be met. `dependents` must
  // outlive this object.
  AffectedSearch(const Dependents& dependents, const std::vector<JobId>& cancelled, ProgressLookup progress,
                 std::function<bool(JobId)> auto_cancel, std::size_t most);
  // Takes at most so many steps, each of which looks at one dependency or job. False: it is complete.
  bool Continue(std::size_t steps);
  std::vector<CancelImpact> Take() { return std::move(affected_); }

 private:
  // A list of which some jobs are cancelled.
  struct Touched {
    Dependents::EntryPtr entry;
    JobId on;  // the first of them
    Dependents::Counts counts;
    bool listed = false;      // its jobs are among the affected
    bool impossible = false;  // when they were listed
    bool in_level = false;
  };

  bool Step();
  void Count(const Dependents::Edge& edge, JobId on);
  bool ListOne();

  const Dependents& dependents_;
  const ProgressLookup progress_;
  const std::function<bool(JobId)> auto_cancel_;
  const std::size_t most_;
  std::set<JobId> gone_{};
  std::vector<CancelImpact> affected_{};
  std::map<JobId, std::size_t> rows_{};
  std::unordered_map<const void*, Touched> touched_{};  // by entry
  // The jobs of which one level is made, and how far it is.
  std::vector<JobId> nearest_{}, next_{};
  std::size_t at_ = 0;
  std::vector<Dependents::Edge> edges_{};  // to nearest_[at_ - 1]
  std::size_t edge_ = 0;
  std::vector<Touched*> level_{};
  std::size_t listing_ = 0;
  std::optional<JobId> last_listed_{};
};

}  // namespace gpuman::queue
