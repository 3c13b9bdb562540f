#include "jobs/bounds.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace gpuman::jobs {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr std::size_t kPages = 32;  // the most of one word, with its NUL (MAX_ARG_STRLEN)

Result<> TooLong(const std::string& what, std::size_t size, std::size_t most) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} has {} bytes; the system executes nothing with more than {}", what, size, most),
              "put it into a file that the program reads");
}

}  // namespace

Result<> CheckExecutable(const std::vector<std::string>& command, const Variables& environment,
                         std::size_t page) {
  const std::size_t longest = kPages * page - 1;
  std::size_t all = 0;
  for (const auto& word : command) {
    if (word.size() > longest) return TooLong("a word of the command", word.size(), longest);
    all += word.size() + 1;
  }
  for (const auto& [name, value] : environment) {
    const std::size_t size = name.size() + 1 + value.size();
    if (size > longest)
      return TooLong(fmt::format("the variable {} of the environment", name.substr(0, 40)), size, longest);
    all += size + 1;
  }
  const std::size_t most = std::max<std::size_t>(kMaxExecuted.count, longest);
  if (all > most) return TooLong("the command with its environment", all, most);
  return {};
}

Result<> CheckExecutable(const std::vector<std::string>& command, const Variables& environment) {
  return CheckExecutable(command, environment, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

Result<> CheckText(const std::string& user, base::Bytes held, base::Bytes more, base::Bytes bound) {
  if (bound.count == 0 || held + more <= bound) return {};
  return Fail(ErrorCode::kUnsatisfiable,
              fmt::format("the commands, scripts and environments of user {}'s jobs take {}; with {} more "
                          "that passes the bound of {}",
                          user, base::FormatBytes(held), base::FormatBytes(more), base::FormatBytes(bound)),
              "submit the rest when some of them have ended, or give them one environment and put what is "
              "long into files; an administrator may raise it: jobs.text");
}

Result<> CheckRunning(const std::string& user, std::size_t running, std::size_t bound) {
  if (bound == 0 || running < bound) return {};
  return Fail(ErrorCode::kUnsatisfiable,
              fmt::format("user {} has {} running jobs; with 1 more that passes the bound of {}", user,
                          running, bound),
              "`gpuman submit` queues it until some of them have ended; an administrator may raise it: "
              "jobs.running_jobs");
}

}  // namespace gpuman::jobs
