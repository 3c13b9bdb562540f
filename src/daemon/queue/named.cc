#include "daemon/queue/named.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace gpuman::daemon {

std::optional<Meant> MeantBy(const std::vector<const jobs::Job*>& named, uid_t user) {
  // What counts first is greater: the user's own, not ended.
  using Rank = std::pair<bool, bool>;
  std::map<base::JobId, Rank> heads;
  for (const auto* const job : named) {
    const auto head = job->array.array.value != 0 ? job->array.array : job->id;
    Rank& rank = heads.try_emplace(head, Rank{}).first->second;
    rank = std::max(rank, Rank{job->owner->uid == user, !jobs::IsEnded(*job)});
  }
  if (heads.empty()) return std::nullopt;
  Rank best{};
  for (const auto& [head, rank] : heads) best = std::max(best, rank);
  Meant meant;
  for (const auto& [head, rank] : heads) {
    if (rank != best) continue;
    if (meant.job.value != 0) meant.also.push_back(meant.job);
    meant.job = head;
  }
  if (!best.second) meant.also.clear();
  return meant;
}

std::optional<std::pair<std::string, std::int64_t>> SplitTask(const std::string& name) {
  const auto at = name.rfind('_');
  if (at == std::string::npos || at == 0 || at + 1 == name.size()) return std::nullopt;
  std::int64_t task = 0;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + at + 1, last, task);
  if (error != std::errc{} || end != last || task < 0) return std::nullopt;
  return std::pair(name.substr(0, at), task);
}

base::Result<> IsOne(const std::string& name, const Meant& meant) {
  if (meant.also.empty()) return {};
  constexpr std::size_t kShown = 8;
  std::vector<std::string> ids;
  for (const auto id : meant.also) ids.push_back(std::to_string(id.value));
  ids.push_back(std::to_string(meant.job.value));
  const auto count = ids.size();
  if (count > kShown) ids.resize(kShown);
  return base::Fail(base::ErrorCode::kConflict,
                    fmt::format("{} jobs that have not ended are named '{}': {}{}", count, name,
                                fmt::join(ids, ", "), count > kShown ? ", …" : ""),
                    "say which by its id; `gpuman queue` shows them");
}

}  // namespace gpuman::daemon
