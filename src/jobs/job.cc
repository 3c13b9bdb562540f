#include "jobs/job.h"

#include "spec/json.h"

namespace gpuman::jobs {

std::size_t JobSpecHash::operator()(const spec::JobSpec& spec) const {
  return std::hash<std::string>()(spec::Serialize(spec));
}

std::string_view ToString(JobState state) { return base::WordOf(WordsOf(state), state); }

std::optional<JobState> JobStateFromString(std::string_view word) {
  return base::ValueOf(WordsOf(JobState{}), word);
}

}  // namespace gpuman::jobs
