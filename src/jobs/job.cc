#include "jobs/job.h"

#include <algorithm>

#include "spec/json.h"

namespace gpuman::jobs {

std::vector<std::string> InConda(const std::string& name, const std::vector<std::string>& command) {
  std::vector<std::string> wrapped{
      "/bin/sh", "-c",
      R"sh(eval "$("${CONDA_EXE:-conda}" shell.posix hook)" && conda activate "$1" && shift && exec "$@")sh",
      "gpuman", name};
  wrapped.insert(wrapped.end(), command.begin(), command.end());
  return wrapped;
}

std::span<const std::string> WordsOfUser(const Job& job) {
  if (!job.spec->conda_env) return job.command;
  const auto wrapper = InConda(*job.spec->conda_env, {});
  const auto [end, bare] =
      std::mismatch(wrapper.begin(), wrapper.end(), job.command.begin(), job.command.end());
  return end == wrapper.end() ? std::span(bare, job.command.end()) : std::span(job.command);
}

std::vector<std::string> CommandOfUser(const Job& job) {
  const auto words = WordsOfUser(job);
  return {words.begin(), words.end()};
}

std::size_t JobSpecHash::operator()(const spec::JobSpec& spec) const {
  return std::hash<std::string>()(spec::Serialize(spec));
}

}  // namespace gpuman::jobs
