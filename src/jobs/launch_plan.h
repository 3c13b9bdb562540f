// Turns a job into the spec for its keeper. Pure.
//
// The command gets the environment with which it was submitted. It also gets GPUMAN_JOB_ID and
// GPUMAN_JOB_TAG; for the GPUs that the job was given, CUDA_VISIBLE_DEVICES (UUIDs) and CUDA_DEVICE_ORDER;
// and LD_PRELOAD with the shim before the caller's value. A job that was given no GPUs may use every one:
// then the caller's own CUDA_VISIBLE_DEVICES stays. With GPUMAN_VISIBLE_DEVICES=index in its environment a
// job gets indices in place of UUIDs; but not on a machine with MIG instances, which have no index.
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
  // For directories of traces, which belong to the jobs' users. A daemon for all has it where anybody may
  // write: nobody is to fill the disk of its state.
  std::filesystem::path trace_dir;
  base::Millis stop_grace{10'000};
  base::Bytes log_size = base::MiB(64);
  std::uint32_t log_files = 2;
  keeper::RestartPolicy restart;      // everything but the mode
  std::optional<int> oom_score_adj;   // for the jobs; absent: the daemon's own
  std::vector<std::string> all_gpus;  // UUIDs of the machine's GPUs now
  std::map<std::string, unsigned>
      gpu_indices;             // of UUIDs, as CUDA counts them; empty where some GPU is split
  std::filesystem::path shim;  // libgpuman.so, preloaded into jobs that want it; empty: into none
  std::filesystem::path shim_socket;
  std::vector<std::string> mps;  // "NAME=value": makes this job a client of its GPU's MPS server
  std::string shared_memory;     // the allocation mode of jobs that share; empty: the shim chooses
};

keeper::Spec PlanLaunch(const Job& job, const LaunchSettings& settings);

// "NAME=value" for the processes of an attached job: their identity, and the shim. LD_PRELOAD holds only the
// shim.
std::vector<std::string> AttachedEnvironment(const Job& job, const LaunchSettings& settings);

std::filesystem::path LogPath(const std::filesystem::path& log_dir, JobId id);
// The directory of the job's traces of allocations.
std::filesystem::path TracePath(const std::filesystem::path& trace_dir, JobId id);
// The directory of this incarnation's keeper and journal, below `jobs` in the state directory.
std::filesystem::path JobDirectory(const std::filesystem::path& jobs_dir, const Job& job);

}  // namespace gpuman::jobs
