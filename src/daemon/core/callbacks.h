// Questions that the core asks modules, which stand above it. The module that knows the answer registers its
// callback once, when it is constructed. The core asks nothing before all modules are constructed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "jobs/event.h"
#include "jobs/job.h"
#include "jobs/lifecycle.h"
#include "jobs/outbox.h"

namespace gpuman::daemon {

struct Callbacks {
  // --- notify: messages are stored together with the job or event that they tell of, and sent afterwards ---
  std::function<std::vector<jobs::OutboxRow>(const jobs::Job&, const std::vector<jobs::Notice>&)>
      messages_about_job;
  std::function<std::vector<jobs::OutboxRow>(const jobs::Event&)> messages_about_event;
  std::function<void(const std::vector<jobs::OutboxRow>&)> on_messages_stored;

  // --- suspension ---
  std::function<bool(base::JobId)> is_off_gpu;
  // guard::Actuator::SuspendJob.
  std::function<void(base::JobId, const std::string& reason, const std::string& detail,
                     base::Millis return_after)>
      suspend_job;

  // --- sharing: whether the job takes turns with other jobs that want its GPU ---
  std::function<bool(const jobs::Job&)> may_share;

  // --- shims: the exact peak of a job's memory; nullopt: the samples' is the best there is ---
  std::function<std::optional<base::Bytes>(base::JobId)> exact_peak;

  // --- mps: environment of a job that is a client of MPS ---
  std::function<std::vector<std::string>(const jobs::Job&)> mps_variables;

  // --- queue: whether other jobs wait for this job's outcome ---
  std::function<bool(base::JobId)> is_needed;
};

}  // namespace gpuman::daemon
