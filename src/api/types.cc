#include "api/types.h"

namespace gpuman::api {

bool IsEnded(JobState state) { return state >= JobState::kFinished; }

std::string_view ToString(JobState state) { return base::WordOf(WordsOf(state), state); }
std::string_view ToString(RestartPolicy policy) { return base::WordOf(WordsOf(policy), policy); }
std::optional<JobState> JobStateFromString(std::string_view word) {
  return base::ValueOf(WordsOf(JobState{}), word);
}
std::optional<RestartPolicy> RestartPolicyFromString(std::string_view word) {
  return base::ValueOf(WordsOf(RestartPolicy{}), word);
}

std::string_view ToString(DependencyKind kind) { return base::WordOf(WordsOf(kind), kind); }
std::string_view ToString(DependencyMode mode) { return base::WordOf(WordsOf(mode), mode); }
std::optional<DependencyKind> DependencyKindFromString(std::string_view word) {
  return base::ValueOf(WordsOf(DependencyKind{}), word);
}
std::optional<DependencyMode> DependencyModeFromString(std::string_view word) {
  return base::ValueOf(WordsOf(DependencyMode{}), word);
}

}  // namespace gpuman::api
