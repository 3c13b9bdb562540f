// The description of the job that a keeper runs: STATE/jobs/ID/spec.json. The daemon writes it before it
// starts the keeper.
//
// Strings of argv, environment and paths may hold any bytes but NUL. docs/keeper.md describes the file.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "base/words.h"
#include "keeper/restart_policy.h"

namespace gpuman::keeper {

inline constexpr int kSpecVersion = 1;

inline constexpr std::string_view kScriptArgument = "{script}";

struct ResourceLimit {
  int resource = 0;  // RLIMIT_…
  rlim_t soft = RLIM_INFINITY;
  rlim_t hard = RLIM_INFINITY;
  friend bool operator==(const ResourceLimit&, const ResourceLimit&) = default;
};

struct LogSettings {
  std::filesystem::path path;              // absolute; older parts are path.1, path.2, …
  base::Bytes size_limit = base::MiB(64);  // of one file
  std::uint32_t rotations = 2;             // older files kept; 0: the file starts over
  friend bool operator==(const LogSettings&, const LogSettings&) = default;
};

// What the keeper does with the processes that a job leaves behind when its command has ended.
enum class LeftoverPolicy {
  kEnd,   // SIGTERM, the stop grace, SIGKILL: the job ends with its command
  kWait,  // the job, and a restart, wait until they end by themselves
};
constexpr auto WordsOf(LeftoverPolicy) {
  return base::Words<LeftoverPolicy, 2>{{{LeftoverPolicy::kEnd, "end"}, {LeftoverPolicy::kWait, "wait"}}};
}

// Limits the time of one run: when it is over the job is stopped, for good. Time in which the clock is paused
// does not count.
struct TimeLimit {
  std::optional<base::Millis> limit;
  int warn_signal = 0;  // to the whole tree, `warn_before` ahead of the limit; 0: none
  base::Millis warn_before{0};
  friend bool operator==(const TimeLimit&, const TimeLimit&) = default;
};

// The memory and processors of the host that all processes of the job together may use. Where a limit cannot
// be held the job runs without it, and a note of the run says so.
struct HostLimits {
  std::optional<base::Bytes> memory;
  int cpus = 0;  // the time of so many processors; 0: no limit
  bool Any() const { return memory || cpus > 0; }
  friend bool operator==(const HostLimits&, const HostLimits&) = default;
};

struct Spec {
  std::int64_t job_id = 0;
  std::string tag;
  std::vector<std::string> argv;  // argv[0] without '/': looked up in the PATH of `environment`
  // Text of a script. A file with it, for this run alone, replaces the argument kScriptArgument.
  std::string script;

  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary; not changed when the keeper is not root
  std::filesystem::path cwd = "/";
  std::vector<std::string> environment;        // complete, "NAME=value"
  std::vector<std::string> extra_environment;  // replaces variables of the same name in `environment`
  mode_t umask = 022;
  std::vector<ResourceLimit> limits;  // one that cannot be set becomes a note of the run and does not end it
  std::optional<int> nice;
  std::optional<int> oom_score_adj;

  LogSettings log;
  // Absolute path of a directory in which the job's processes write traces; it is the user's, and each run
  // begins with an empty one. Empty: none.
  std::filesystem::path traces;
  RestartPolicy restart;
  int stop_signal = 15;  // SIGTERM
  base::Millis stop_grace{10'000};
  LeftoverPolicy leftovers = LeftoverPolicy::kEnd;
  TimeLimit time_limit;
  HostLimits host;

  // The job's files, opened as its user; relative ones from `cwd`. Empty input: none (/dev/null). Empty
  // output: the log; appended to. Empty errors: where the output goes.
  std::filesystem::path standard_input, standard_output, standard_error;

  // Absolute path of a cgroup v2 directory under which the job's own is made. Empty: `gpuman` below the
  // keeper's own cgroup. Where none can be made the job runs without it.
  std::filesystem::path cgroup_parent;
  bool use_cgroup = true;

  friend bool operator==(const Spec&, const Spec&) = default;
};

// Refuses a spec that could never run: no argv, relative paths, NUL bytes, unknown limits.
base::Result<> Validate(const Spec& spec);

std::string SerializeSpec(const Spec& spec);
// Validates too. kNotSupported for a version that this program does not know, kCorrupt for text that is no
// spec.
base::Result<Spec> ParseSpec(std::string_view text);

// `environment` with `extra_environment` laid over it: one entry for each name, the last one wins.
std::vector<std::string> MergedEnvironment(const Spec& spec);

// "NOFILE" for RLIMIT_NOFILE, and back.
std::string_view LimitName(int resource);
std::optional<int> LimitFromName(std::string_view name);

}  // namespace gpuman::keeper
