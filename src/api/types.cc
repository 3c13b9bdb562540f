#include "api/types.h"

namespace gpuman::api {

bool IsEnded(JobState state) { return state >= JobState::kFinished; }

std::string_view ToString(JobState state) { return base::WordOf(WordsOf(state), state); }
std::optional<JobState> JobStateFromString(std::string_view word) {
  return base::ValueOf(WordsOf(JobState{}), word);
}

}  // namespace gpuman::api
