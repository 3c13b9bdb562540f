// Judges a keeper's answer to the order to stop or start the clock of a job's time limit. Pure.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/result.h"
#include "spec/job_state.h"

namespace gpuman::jobs {

// Returns the text of the error to report; nullopt: there is no error. `off`: the clock was to stop. `state`:
// the state of the job when the answer came.
inline std::optional<std::string> ClockErrorText(bool off, const base::Result<>& outcome,
                                                 spec::JobState state) {
  // Without an answer the journal tells when the keeper is connected again.
  if (outcome || outcome.error().code == base::ErrorCode::kUnavailable) return std::nullopt;
  // The run is over, as records before this answer say; the next run has a clock of its own.
  if (outcome.error().code == base::ErrorCode::kConflict && state != spec::JobState::kRunning)
    return std::nullopt;
  return fmt::format("its keeper does not {} the clock of its time limit: {}", off ? "stop" : "start",
                     outcome.error().message);
}

}  // namespace gpuman::jobs
