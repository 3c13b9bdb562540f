// MPS as the API shows it. Pure, except that it reads the process table.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/mps_types.h"
#include "daemon/mps/manager.h"
#include "guard/guard.h"
#include "jobs/job.h"

namespace gpuman::daemon {

struct MpsViewSources {
  const std::map<std::string, guard::GpuStatus>& gpus;  // by UUID
  const base::ProcessTable& table;
  std::function<std::string(uid_t)> user_name;
  std::function<std::optional<base::JobId>(pid_t)> job_of;
  std::function<std::optional<std::string>(base::JobId)> tag_of;
  std::vector<const jobs::Job*> jobs;  // that run now
};

// Ordered by index; missing GPUs come last.
api::MpsReport MpsReportOf(const MpsManager& manager, const MpsViewSources& around,
                           std::vector<std::string> notes);

}  // namespace gpuman::daemon
