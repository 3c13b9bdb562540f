#include "daemon/queue/job_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/parse_number.h"

namespace gpuman::daemon {

std::optional<std::pair<std::string, std::int64_t>> SplitTask(const std::string& name) {
  const auto at = name.rfind('_');
  if (at == std::string::npos || at == 0 || at + 1 == name.size()) return std::nullopt;
  const auto task = base::ParseNumber<std::int64_t>(std::string_view(name).substr(at + 1));
  if (!task || *task < 0) return std::nullopt;
  return std::pair(name.substr(0, at), *task);
}

base::Result<> IsOne(const std::string& name, std::vector<base::JobId> open) {
  if (open.size() < 2) return {};
  constexpr std::size_t kShown = 8;
  std::sort(open.begin(), open.end());
  std::vector<std::string> ids;
  for (const auto id : open)
    if (ids.size() < kShown) ids.push_back(std::to_string(id.value));
  const bool more = open.size() > kShown;
  return base::Fail(
      base::ErrorCode::kConflict,
      fmt::format("{}{} jobs that have not ended are named '{}': {}{}", more ? "more than " : "", ids.size(),
                  name, fmt::join(ids, ", "), more ? ", …" : ""),
      "say which by its id; `gpuman queue` shows them");
}

std::string NoteOnName(const std::string& name, const std::vector<base::JobId>& all, base::JobId taken,
                       std::size_t most) {
  if (all.size() < 2) return {};
  const bool newest = *std::max_element(all.begin(), all.end()) <= taken;
  return fmt::format("{}{} jobs are called '{}'; this is the newest{}, job {}; give the id for another",
                     all.size() < most ? "" : "at least ", all.size(), name,
                     newest ? "" : " that has not ended", taken.value);
}

}  // namespace gpuman::daemon
