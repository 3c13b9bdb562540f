// What a keeper is to run: STATE/jobs/ID/spec.json, written by the daemon before it starts the keeper.
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

// What becomes of the processes a job leaves behind when its command has ended.
enum class Leftovers {
  kEnd,   // SIGTERM, the stop grace, SIGKILL: the job is its command
  kWait,  // the job, and a restart, wait until they end by themselves
};

// Of one run: when it is over the job is stopped, for good. Time for which the clock is paused does not
// count.
struct TimeLimit {
  std::optional<base::Millis> limit;
  int warn_signal = 0;  // to the whole tree, `warn_before` the limit; 0: none
  base::Millis warn_before{0};
  friend bool operator==(const TimeLimit&, const TimeLimit&) = default;
};

// What all processes of the job together may have of the host. Where it cannot be held the job runs without,
// and a note of the run says so.
struct HostLimits {
  std::optional<base::Bytes> memory;
  int cpus = 0;  // so many processors' time; 0: no limit
  bool Any() const { return memory || cpus > 0; }
  friend bool operator==(const HostLimits&, const HostLimits&) = default;
};

struct Spec {
  std::int64_t job_id = 0;
  std::string tag;
  std::vector<std::string> argv;  // argv[0] without '/': looked up in the PATH of `environment`
  // Text of a script: the argument kScriptArgument is the name of a file with it, for this run alone.
  std::string script;

  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary; not changed when the keeper is not root
  std::filesystem::path cwd = "/";
  std::vector<std::string> environment;        // complete, "NAME=value"
  std::vector<std::string> extra_environment;  // replaces what `environment` says under the same name
  mode_t umask = 022;
  std::vector<ResourceLimit> limits;  // one that cannot be set is a note of the run, not its end
  std::optional<int> nice;
  std::optional<int> oom_score_adj;

  LogSettings log;
  RestartPolicy restart;
  int stop_signal = 15;  // SIGTERM
  base::Millis stop_grace{10'000};
  Leftovers leftovers = Leftovers::kEnd;
  TimeLimit time_limit;
  HostLimits host;

  // Files of the job's, opened as its user; relative ones from `cwd`. Input empty: none (/dev/null). Output
  // empty: the log; appended to. Errors empty: where output goes.
  std::filesystem::path standard_input, standard_output, standard_error;

  // Absolute path of a cgroup v2 directory under which the job's own is made. Empty: `gpuman` below the
  // keeper's own cgroup. Where none can be made the job runs without.
  std::filesystem::path cgroup_parent;
  bool use_cgroup = true;

  friend bool operator==(const Spec&, const Spec&) = default;
};

// Refuses what could never be run: no argv, relative paths, NUL bytes, unknown limits.
base::Result<> Validate(const Spec& spec);

std::string SerializeSpec(const Spec& spec);
// Validates too. kNotSupported for a version this program does not know, kCorrupt for what is no spec.
base::Result<Spec> ParseSpec(std::string_view text);

// `environment` with `extra_environment` laid over it: one entry a name, the last one wins.
std::vector<std::string> MergedEnvironment(const Spec& spec);

// "NOFILE" for RLIMIT_NOFILE, and back.
std::string_view LimitName(int resource);
std::optional<int> LimitFromName(std::string_view name);

}  // namespace gpuman::keeper
