// Jobs that wait for other jobs: how users write dependencies, whether the dependencies are met, and which
// jobs the daemon must check when a job begins or ends. Pure; values and functions, and one index.
// Thread-compatible.
#pragma once

#include <functional>
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
// those of another job, or null if that job waits for none. Empty: there is no circle.
std::vector<JobId> FindCircle(JobId job, const Dependencies& dependencies,
                              const std::function<const Dependencies*(JobId)>& of);

// A job that waits for a job that is cancelled.
struct CancelImpact {
  JobId job{};
  JobId on{};
  bool goes = false;  // it can never start then, and is cancelled too
  friend bool operator==(const CancelImpact&, const CancelImpact&) = default;
};

// Records which jobs wait for which jobs, and computes the state of each waiting job. Jobs that wait for the
// same jobs, as the tasks of an array do, share one entry, and the end of a job is counted once: 1,000 tasks
// that wait for 1,000 others cost 2,000 steps, not a million for each that ends.
class Dependents {
 public:
  // Replaces the dependencies of `job`; an empty list removes the job. Returns the state that follows from
  // `progress`. From then on the caller must call Tell for each job that begins, ends or is forgotten.
  DependencyState Set(JobId job, const Dependencies& dependencies, const ProgressLookup& progress);
  void Erase(JobId job);
  // Takes the progress of `job`. Calls `told` for each job that waits for `job` and whose state changes.
  void Tell(JobId job, AwaitedJobState progress, const std::function<void(JobId, DependencyState)>& told);
  // The jobs that wait for `job`, lowest id first.
  std::vector<JobId> Of(JobId job) const;
  bool Any(JobId job) const { return waited_for_.contains(job.value); }
  const Dependencies* DependenciesOf(JobId job) const;
  // The jobs that wait for the jobs `cancelled`, then those that wait for them, and so on along the jobs that
  // are cancelled too: the first `most` of them. `auto_cancel`: whether a job is cancelled when its
  // dependencies can never be met.
  std::vector<CancelImpact> AffectedBy(std::vector<JobId> cancelled, const ProgressLookup& progress,
                                       const std::function<bool(JobId)>& auto_cancel, std::size_t most) const;

 private:
  struct Entry {
    Dependencies dependencies{};
    std::vector<DependencyState> each{};  // by place in the list
    std::size_t waiting = 0, impossible = 0;
    std::set<JobId> jobs{};
    DependencyState State() const;
  };
  using EntryPtr = std::shared_ptr<Entry>;  // waiting jobs and awaited jobs share it

  EntryPtr EntryFor(const Dependencies& dependencies, const ProgressLookup& progress);

  std::unordered_map<std::int64_t, EntryPtr> waits_{};
  std::unordered_map<std::int64_t, std::vector<std::pair<EntryPtr, std::size_t>>> waited_for_{};  // and place
  std::weak_ptr<Entry> last_{};  // neighbours mostly wait for the same jobs
};

}  // namespace gpuman::queue
