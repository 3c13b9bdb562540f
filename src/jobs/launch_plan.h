// From a job to what its keeper is told to run. Pure.
//
// The command gets the environment it was submitted with, and on top of it GPUMAN_JOB_ID, GPUMAN_JOB_TAG and,
// for the GPUs it was given, CUDA_VISIBLE_DEVICES (UUIDs) and CUDA_DEVICE_ORDER, and LD_PRELOAD with the shim
// before what the caller had there. A job that was given no GPUs
// may use every one: then a CUDA_VISIBLE_DEVICES of the caller's own stays. With GPUMAN_VISIBLE_DEVICES=index
// in its environment a job gets indices in place of UUIDs; not on a machine with MIG instances, which have
// none.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "jobs/job.h"
#include "keeper/spec.h"

namespace gpuman::jobs {

struct LaunchSettings {
  std::filesystem::path log_dir;
  base::Millis stop_grace{10'000};
  base::Bytes log_size = base::MiB(64);
  std::uint32_t log_files = 2;
  keeper::RestartPolicy restart;      // all but the mode
  std::optional<int> oom_score_adj;   // of the jobs; absent: as the daemon's own
  std::vector<std::string> all_gpus;  // UUIDs of what the machine has now
  std::map<std::string, unsigned>
      gpu_indices;             // of UUIDs, as CUDA counts them; empty where some GPU is split
  std::filesystem::path shim;  // libgpuman.so, preloaded into jobs that want it; empty: into none
  std::filesystem::path shim_socket;
  std::vector<std::string> mps;  // "NAME=value": what makes this job a client of its GPU's MPS server
  std::string shared_memory;     // what shims make memory of jobs that share of; empty: as they find best
};

keeper::Spec PlanLaunch(const Job& job, const LaunchSettings& settings);

// "NAME=value" for the processes of a job that gpuman does not start: who they are, and the shim. LD_PRELOAD
// is the shim alone.
std::vector<std::string> AttachedEnvironment(const Job& job, const LaunchSettings& settings);

// The name of a file with its signs replaced: %j the job's id, %A the array's, %a the task, %x the tag, %%.
std::string ExpandFile(std::string_view pattern, const Job& job);

std::filesystem::path LogPath(const std::filesystem::path& log_dir, JobId id);
// Where journal and keeper of this incarnation live, below the state directory's `jobs`.
std::filesystem::path JobDirectory(const std::filesystem::path& jobs_dir, const Job& job);

}  // namespace gpuman::jobs
