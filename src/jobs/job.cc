#include "jobs/job.h"

#include <array>

namespace gpuman::jobs {
namespace {

constexpr std::array kStates{
    std::pair{JobState::kQueued, std::string_view("queued")},
    std::pair{JobState::kHeld, std::string_view("held")},
    std::pair{JobState::kStarting, std::string_view("starting")},
    std::pair{JobState::kRunning, std::string_view("running")},
    std::pair{JobState::kStopping, std::string_view("stopping")},
    std::pair{JobState::kFinished, std::string_view("finished")},
    std::pair{JobState::kFailed, std::string_view("failed")},
    std::pair{JobState::kCancelled, std::string_view("cancelled")},
    std::pair{JobState::kTimeout, std::string_view("timeout")},
    std::pair{JobState::kKilled, std::string_view("killed")},
};

}  // namespace

std::string_view ToString(JobState state) {
  for (const auto& [value, word] : kStates)
    if (value == state) return word;
  return "failed";
}

std::optional<JobState> JobStateFromString(std::string_view word) {
  for (const auto& [value, known] : kStates)
    if (known == word) return value;
  return std::nullopt;
}

}  // namespace gpuman::jobs
