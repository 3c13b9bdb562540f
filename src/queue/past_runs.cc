#include "queue/past_runs.h"

#include <algorithm>
#include <tuple>

namespace gpuman::queue {
namespace {

bool EndedBefore(const PastRun& a, const PastRun& b) {
  return std::tuple(a.ended, a.job.value) < std::tuple(b.ended, b.job.value);
}

}  // namespace

void PastRuns::Add(const std::string& user, const std::string& name, const PastRun& run) {
  if (name.empty() || name.size() > kLongestName) return;
  Names& names = users_[user];
  if (!names.contains(name)) {
    MakeRoom(names);
    ++names_;
  }
  Runs& runs = names[name];
  const auto place = std::lower_bound(runs.begin(), runs.end(), run, EndedBefore);
  if (place != runs.end() && !EndedBefore(run, *place)) return;  // it is there
  runs.insert(place, run);
  if (runs.size() > kPastRuns) runs.erase(runs.begin());
}

const std::vector<PastRun>& PastRuns::Of(const std::string& user, const std::string& name) const {
  static const Runs no_runs;
  const auto names = users_.find(user);
  if (names == users_.end()) return no_runs;
  const auto runs = names->second.find(name);
  return runs == names->second.end() ? no_runs : runs->second;
}

void PastRuns::MakeRoom(Names& names) {
  if (names.size() >= kNamesOfUser) return Shorten(names);
  if (names_ < kNames) return;
  const auto most = std::max_element(users_.begin(), users_.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  Shorten(most->second);
}

// Forgets the name whose last run ended first.
void PastRuns::Shorten(Names& names) {
  const auto oldest = std::min_element(names.begin(), names.end(), [](const auto& a, const auto& b) {
    return EndedBefore(a.second.back(), b.second.back());
  });
  names.erase(oldest);
  --names_;
}

}  // namespace gpuman::queue
