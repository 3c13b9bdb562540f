#include "api/types.h"

#include <array>
#include <utility>

namespace gpuman::api {
namespace {

constexpr std::array<std::pair<JobState, std::string_view>, 11> kStates{{
    {JobState::kQueued, "queued"},
    {JobState::kHeld, "held"},
    {JobState::kStarting, "starting"},
    {JobState::kRunning, "running"},
    {JobState::kSuspended, "suspended"},
    {JobState::kStopping, "stopping"},
    {JobState::kFinished, "finished"},
    {JobState::kFailed, "failed"},
    {JobState::kCancelled, "cancelled"},
    {JobState::kTimeout, "timeout"},
    {JobState::kKilled, "killed"},
}};

constexpr std::array<std::pair<RestartPolicy, std::string_view>, 3> kPolicies{{
    {RestartPolicy::kNo, "no"},
    {RestartPolicy::kOnFailure, "on-failure"},
    {RestartPolicy::kAlways, "always"},
}};

template <typename Table, typename T>
std::string_view WordOf(const Table& table, T value) {
  for (const auto& [v, word] : table)
    if (v == value) return word;
  return "unknown";
}

template <typename T, typename Table>
std::optional<T> ValueOf(const Table& table, std::string_view text) {
  for (const auto& [value, word] : table)
    if (word == text) return value;
  return std::nullopt;
}

}  // namespace

bool IsEnded(JobState state) { return state >= JobState::kFinished; }

std::string_view ToString(JobState state) { return WordOf(kStates, state); }
std::string_view ToString(RestartPolicy policy) { return WordOf(kPolicies, policy); }
std::optional<JobState> JobStateFromString(std::string_view word) { return ValueOf<JobState>(kStates, word); }
std::optional<RestartPolicy> RestartPolicyFromString(std::string_view word) {
  return ValueOf<RestartPolicy>(kPolicies, word);
}

}  // namespace gpuman::api
