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

constexpr std::array<std::pair<DependencyKind, std::string_view>, 4> kKinds{{
    {DependencyKind::kAfterOk, "afterok"},
    {DependencyKind::kAfterAny, "afterany"},
    {DependencyKind::kAfterNotOk, "afternotok"},
    {DependencyKind::kAfter, "after"},
}};

constexpr std::array<std::pair<DependencyMode, std::string_view>, 2> kModes{{
    {DependencyMode::kAll, "all"},
    {DependencyMode::kAny, "any"},
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

std::string_view ToString(DependencyKind kind) { return WordOf(kKinds, kind); }
std::string_view ToString(DependencyMode mode) { return WordOf(kModes, mode); }
std::optional<DependencyKind> DependencyKindFromString(std::string_view word) {
  return ValueOf<DependencyKind>(kKinds, word);
}
std::optional<DependencyMode> DependencyModeFromString(std::string_view word) {
  return ValueOf<DependencyMode>(kModes, word);
}

}  // namespace gpuman::api
