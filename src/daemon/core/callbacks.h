// Questions of the core that only a module can answer. The module that knows the answer registers its
// callback once, when it is constructed. The core asks nothing before all modules are constructed. What the
// job manager asks is in jobs/job_manager_callbacks.h.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "jobs/event.h"
#include "jobs/job.h"
#include "jobs/outbox.h"

namespace gpuman::daemon {

struct Callbacks {
  // --- Asked for each event: its messages are stored together with it, and sent afterwards ---
  std::function<std::vector<jobs::OutboxRow>(const jobs::Event&)> messages_about_event;
  std::function<void(const std::vector<jobs::OutboxRow>&)> on_messages_stored;

  // --- Asked for the guard ---
  // guard::Actuator::SuspendJob.
  std::function<void(base::JobId, const std::string& reason, const std::string& detail,
                     base::Millis return_after)>
      suspend_job;
  // Whether the job takes turns with other jobs that want its GPU.
  std::function<bool(const jobs::Job&)> may_share;
  // The exact peak of a job's memory; nullopt: the samples' is the best there is.
  std::function<std::optional<base::Bytes>(base::JobId)> exact_peak;
};

}  // namespace gpuman::daemon
