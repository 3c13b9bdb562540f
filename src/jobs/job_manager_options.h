// What an administrator sets for all jobs. Plain values.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/units.h"
#include "jobs/launch_plan.h"
#include "jobs/user_usage_tracker.h"

namespace gpuman::jobs {

struct JobManagerOptions {
  std::filesystem::path keeper_program;
  std::filesystem::path jobs_dir;  // exists
  LaunchSettings launch;           // JobManagerCallbacks tell its GPUs and what MPS needs
  std::size_t keep_ended = 1000;   // older ended jobs are forgotten (retention.h)
  base::Millis keep_ended_for{30LL * 86'400'000};
  UserBounds of_user;
};

}  // namespace gpuman::jobs
