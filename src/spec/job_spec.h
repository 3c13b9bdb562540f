// What a user asks of a job: one description for the API, the queue, the store and the keeper's spec.
//
// Command, directory, environment, umask and tag are in the job's record (jobs/job.h), and so is the job's
// place in an array. So the jobs of an array, and most jobs of one user, have equal specs and share one.
//
// Plain values; thread-compatible. Points in time are wall time, since people name them ("begin at six");
// durations are in milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "base/words.h"
#include "spec/job_options.h"

namespace gpuman::spec {

using base::JobId;

// How many GPUs and which. If `devices` names GPUs, the job gets all of them, and `count` is their number.
// Otherwise it gets any `count` GPUs of the model that have `free_memory` free. 0: no GPU. In a request a GPU
// may also be an index or the beginning of a UUID, `count` may be left out, and `free_memory` may be
// relative.
struct GpuRequest {
  int count = 0;
  std::vector<std::string> devices{};           // UUIDs
  std::optional<std::string> model{};           // a part of the GPU's name, in either case
  std::optional<base::SizeSpec> free_memory{};  // at least, on each of them, when the job starts
  friend bool operator==(const GpuRequest&, const GpuRequest&) = default;
};
template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, GpuRequest>
void Fields(V& v, T& x) {
  if (v.in_seconds())  // the API shows it always
    v("count", x.count);
  else
    v.Changed("count", x.count);
  v.Changed("devices", x.devices);
  v.Option("model", x.model);
  v.Option("free_memory", x.free_memory);
}

// kAfterOk: the job finished with status 0. kAfterNotOk: it ended in another way. kAfterAny: it ended.
// kAfter: it began, or ended without having begun.
enum class DependencyKind : std::uint8_t { kAfterOk, kAfterNotOk, kAfterAny, kAfter };
enum class DependencyMode : std::uint8_t { kAll, kAny };
constexpr auto WordsOf(DependencyKind) {
  using enum DependencyKind;
  return base::Words<DependencyKind, 4>{{
      {kAfterOk, "afterok"},
      {kAfterNotOk, "afternotok"},
      {kAfterAny, "afterany"},
      {kAfter, "after"},
  }};
}
constexpr auto WordsOf(DependencyMode) {
  using enum DependencyMode;
  return base::Words<DependencyMode, 2>{{
      {kAll, "all"},
      {kAny, "any"},
  }};
}

struct Dependency {
  DependencyKind kind = DependencyKind::kAfterOk;
  JobId job;  // each task of an array has an entry
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

struct Dependencies {
  DependencyMode mode = DependencyMode::kAll;
  std::vector<Dependency> list{};
  friend bool operator==(const Dependencies&, const Dependencies&) = default;
};

// Dependencies as a request has them, and as the API shows them.
struct NamedDependency {
  DependencyKind kind = DependencyKind::kAfterOk;
  // Id or tag; in a request also "7_3" (a task of an array), "@" (the caller's last submitted job), "@~2"
  // (two before it). An array's id means all its tasks. In an answer the id.
  std::string job{};
  friend bool operator==(const NamedDependency&, const NamedDependency&) = default;
};
template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, NamedDependency>
void Fields(V& v, T& x) {
  v("kind", x.kind);
  v.Required("job", x.job);
}

struct NamedDependencies {
  DependencyMode mode = DependencyMode::kAll;
  std::vector<NamedDependency> list{};
  friend bool operator==(const NamedDependencies&, const NamedDependencies&) = default;
};
template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, NamedDependencies>
void Fields(V& v, T& x) {
  v("mode", x.mode);
  v.Required("list", x.list);
}

// What a request asks of a job, and what answers show: its options, and the jobs that it waits for by their
// names.
struct JobRequest : JobOptions {
  NamedDependencies depends{};
  friend bool operator==(const JobRequest&, const JobRequest&) = default;
};
template <typename V, typename T>
void RequestFields(V& v, T& x) {
  OptionFields(v, x);
  v.Changed("depends", x.depends);
}
// What an update changes of a job of the queue beyond UpdateFields; `depends` is replaced as a whole.
template <typename V, typename T>
void RequestUpdateFields(V& v, T& x) {
  QueueUpdateFields(v, x);
  v.Changed("depends", x.depends);
}

// Which task of which array a job is. An array has the id of its first task.
struct ArrayTask {
  base::JobId array{};  // 0: the job is in no array
  std::int64_t task = 0;
  int limit = 0;  // at most so many tasks run at a time; 0: any number
  friend bool operator==(const ArrayTask&, const ArrayTask&) = default;
};

struct JobSpec : JobOptions {
  std::string script{};  // the text of the script, if the command runs one
  // The GPUs of a job of `gpuman run` are in the job's record, not here.
  GpuRequest gpus{};
  // `memory` on the smallest GPU that would do, as of the submission: what the queue counts.
  std::optional<base::Bytes> memory_on_each{};
  Dependencies depends{};
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

// Checks the bounds of each value; kInvalidArgument names the field.
base::Result<> Validate(const JobSpec& spec);
// Also refuses a job that the queue of no machine could start. queue/admission.h checks whether the queue of
// this machine could start it.
base::Result<> ValidateForQueue(const JobSpec& spec);

// The words of WordsOf(); nullopt for other words.
std::string_view ToString(DependencyKind kind);
std::string_view ToString(DependencyMode mode);
std::optional<DependencyKind> DependencyKindFromString(std::string_view word);

}  // namespace gpuman::spec
