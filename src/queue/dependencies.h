// Jobs that wait for jobs: how people write them, what they come to, and who has to be looked at when a job
// begins or ends. Pure; values and functions, and one index. Thread-compatible.
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

#include "queue/request.h"
#include "queue/snapshot.h"

namespace gpuman::queue {

// How a job is named: `7`, `7_3` (task 3 of array 7), `@` (the caller's last), `@~2` (the one two before), or
// a tag.
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
// "afterok:7:8,afterany:@", "train" (afterok), "7?8" (any): `,` is all of them, `?` any; not both. A tag with
// a colon in it cannot be written. kInvalidArgument says which piece.
base::Result<NamedDependencies> ParseDependencies(std::string_view text);

// The jobs that a reference names: all tasks of an array. Empty: there is none.
using ReferenceLookup = std::function<std::vector<JobId>(const Reference&)>;
// kNotFound names the reference. Each dependency once.
base::Result<Dependencies> Resolve(const NamedDependencies& named, const ReferenceLookup& lookup);

// How far a job that others wait for has got.
enum class Progress : std::uint8_t {
  kWaits,
  kBegan,      // runs, or ran and waits to run again
  kOk,         // ended, with status 0
  kNotOk,      // ended in another way
  kCancelled,  // ended without having begun
  kUnknown,    // no longer in the books
};
using ProgressLookup = std::function<Progress(JobId)>;

// A job that is no longer in the books ended, nobody knows how: good for kAfterAny and kAfter, never for
// others.
DependencyState Judge(const Dependencies& dependencies, const ProgressLookup& progress);

// A way from `job` over `dependencies` and what `of` tells of other jobs back to itself; empty: there is
// none. `of` gives null for a job that waits for nobody.
std::vector<JobId> FindCircle(JobId job, const Dependencies& dependencies,
                              const std::function<const Dependencies*(JobId)>& of);

// Who waits for whom, and what that comes to. Jobs that wait for the same, as the tasks of an array do, are
// one entry, and what became of a job is counted once: 1,000 tasks that wait for 1,000 others cost 2,000
// steps, not a million for each that ends.
class Dependents {
 public:
  // Replaces what `job` waited for; an empty list takes it out. What it comes to as `progress` has it; from
  // then on Tell has to be called for each job that begins, ends or is forgotten.
  DependencyState Set(JobId job, const Dependencies& dependencies, const ProgressLookup& progress);
  void Erase(JobId job);
  // How far `job` has got now. Those that wait for it and for which that makes a difference are told.
  void Tell(JobId job, Progress progress, const std::function<void(JobId, DependencyState)>& told);
  // Those that wait for `job`, lowest id first.
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
  using EntryPtr = std::shared_ptr<Entry>;  // of those that wait and those that are waited for

  EntryPtr EntryFor(const Dependencies& dependencies, const ProgressLookup& progress);

  std::unordered_map<std::int64_t, EntryPtr> waits_{};
  std::unordered_map<std::int64_t, std::vector<std::pair<EntryPtr, std::size_t>>> waited_for_{};  // and place
  std::weak_ptr<Entry> last_{};  // neighbours mostly wait for the same
};

}  // namespace gpuman::queue
