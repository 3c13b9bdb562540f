// Jobs that wait for jobs: how people write that, whether the dependencies are met, and which jobs to look at
// when a job begins or ends. Pure; values and functions, and one index. Thread-compatible.
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

// How people name a job: `7`, `7_3` (task 3 of array 7), `@` (the user's last), `@~2` (two before that), or a
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

struct NamedDependency {
  DependencyKind kind = DependencyKind::kAfterOk;
  Reference job{};
  friend bool operator==(const NamedDependency&, const NamedDependency&) = default;
};
struct NamedDependencies {
  DependencyMode mode = DependencyMode::kAll;
  std::vector<NamedDependency> list{};
  friend bool operator==(const NamedDependencies&, const NamedDependencies&) = default;
};
// Parses "afterok:7:8,afterany:@", "train" (afterok), "7?8" (any): `,` means all of them, `?` any; not both
// in one text. A tag with a colon cannot be written. kInvalidArgument names the piece.
base::Result<NamedDependencies> ParseDependencies(std::string_view text);

// The jobs that a reference names: for an array, all its tasks. Empty: there is none.
using ReferenceLookup = std::function<std::vector<JobId>(const Reference&)>;
// kNotFound names the reference. The result has each dependency once.
base::Result<Dependencies> Resolve(const NamedDependencies& named, const ReferenceLookup& lookup);

// The progress of a job that others wait for.
enum class Progress : std::uint8_t {
  kWaits,
  kBegan,      // runs, or ran and waits to run again
  kOk,         // ended, with status 0
  kNotOk,      // ended in another way
  kCancelled,  // ended without having begun
  kUnknown,    // not recorded any more
};
using ProgressLookup = std::function<Progress(JobId)>;

// A job that is not recorded any more has ended with an unknown status: that meets kAfterAny and kAfter,
// never the others.
DependencyState Judge(const Dependencies& dependencies, const ProgressLookup& progress);

// A circle from `job` over `dependencies`, and what `of` returns for other jobs, back to `job`; empty: there
// is none. `of` returns null for a job that waits for none.
std::vector<JobId> FindCircle(JobId job, const Dependencies& dependencies,
                              const std::function<const Dependencies*(JobId)>& of);

// Which jobs wait for which, and the state that follows. Jobs that wait for the same jobs, as the tasks of an
// array do, share one entry, and the end of a job is counted once: 1,000 tasks that wait for 1,000 others
// cost 2,000 steps, not a million for each that ends.
class Dependents {
 public:
  // Replaces what `job` waits for; an empty list removes the job. Returns the state by `progress`; from then
  // on Tell has to be called for each job that begins, ends or is forgotten.
  DependencyState Set(JobId job, const Dependencies& dependencies, const ProgressLookup& progress);
  void Erase(JobId job);
  // Tells the progress of `job`. Calls `told` for the jobs that wait for it and whose state changes.
  void Tell(JobId job, Progress progress, const std::function<void(JobId, DependencyState)>& told);
  // The jobs that wait for `job`, lowest id first.
  std::vector<JobId> Of(JobId job) const;
  bool Any(JobId job) const { return waited_for_.contains(job.value); }
  const Dependencies* DependenciesOf(JobId job) const;

 private:
  struct Entry {
    Dependencies dependencies{};
    std::vector<DependencyState> each{};  // by place in the list
    std::size_t waiting = 0, impossible = 0;
    std::set<JobId> jobs{};
    DependencyState State() const;
  };
  using EntryPtr = std::shared_ptr<Entry>;  // shared by the jobs that wait and those that they wait for

  EntryPtr EntryFor(const Dependencies& dependencies, const ProgressLookup& progress);

  std::unordered_map<std::int64_t, EntryPtr> waits_{};
  std::unordered_map<std::int64_t, std::vector<std::pair<EntryPtr, std::size_t>>> waited_for_{};  // and place
  std::weak_ptr<Entry> last_{};  // neighbours mostly wait for the same jobs
};

}  // namespace gpuman::queue
