// Whether and when a job's command runs again after it ended. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"
#include "spec/job_spec.h"

namespace gpuman::keeper {

using spec::RestartMode;

struct RestartPolicy {
  RestartMode mode = RestartMode::kNo;
  // Before the first restart in a row; each further restart waits twice as long as the one before.
  base::Millis initial_delay{1000};
  // After five restarts in a row the delay is at least 100 ms, whatever is set here.
  base::Millis max_delay{60'000};
  base::Millis reset_after{60'000};             // a run that lasted at least this long ends the row
  std::optional<std::uint32_t> max_restarts{};  // in a row; empty: no limit
  friend bool operator==(const RestartPolicy&, const RestartPolicy&) = default;
};

struct RunOutcome {
  bool success = false;
  base::Millis lasted{0};
};

enum class RestartVerdict { kRestart, kNotWanted, kExhausted };

struct RestartDecision {
  RestartVerdict verdict = RestartVerdict::kNotWanted;
  base::Millis delay{0};
  std::uint32_t in_a_row = 0;  // restarts in a row, this one counted
  friend bool operator==(const RestartDecision&, const RestartDecision&) = default;
};

// `in_a_row`: restarts in a row before the run that has just ended.
RestartDecision DecideRestart(const RestartPolicy& policy, std::uint32_t in_a_row, const RunOutcome& outcome);

}  // namespace gpuman::keeper
