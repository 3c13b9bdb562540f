#include "share/lockstep_tracker.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace gpuman::share {
namespace {

// Between two cuts the processes may differ by so many calls: at a cut one may be somewhat further than
// another, but not past the next collective.
constexpr std::uint64_t kApart = 64;
constexpr std::int64_t kFarthestBehind = 256;
constexpr std::uint64_t kMaxNewCalls = std::uint64_t{1} << 48;  // a process may write anything
constexpr unsigned kLongestPause = 6;                           // log2
constexpr std::size_t kCutsRemembered = 5;                      // cuts
// Places that seem to differ by no more than this are taken as the same number of calls.
constexpr std::uint64_t kNearlyEqual = 8;

// Calls of each process since `at`; empty where not both know the same processes.
std::map<base::ProcessId, std::int64_t> Since(const CallsByProcess& at, const CallsByProcess& now) {
  std::map<base::ProcessId, std::int64_t> since;
  if (at.size() != now.size() || now.size() < 2) return since;
  for (const auto& [process, calls] : now) {
    const auto before = at.find(process);
    if (before == at.end() || before->second == 0 || calls < before->second ||
        calls - before->second > kMaxNewCalls)
      return {};
    since[process] = static_cast<std::int64_t>(calls - before->second);
  }
  return since;
}

template <typename Number>
Number MedianOf(std::vector<Number> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

// The calls of the process in the middle.
std::uint64_t MiddleOf(const CallsByProcess& calls) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [process, number] : calls) numbers.push_back(number);
  return MedianOf(std::move(numbers));
}

// Returns how many calls each process is ahead of the process in the middle.
std::map<base::ProcessId, std::int64_t> Ahead(const CallsByProcess& calls) {
  std::map<base::ProcessId, std::int64_t> ahead;
  const std::uint64_t middle = MiddleOf(calls);
  for (const auto& [process, number] : calls) ahead[process] = static_cast<std::int64_t>(number - middle);
  return ahead;
}

// Where all have made equally many calls: as many as the one that made the fewest.
CallsByProcess Equal(const CallsByProcess& calls) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [process, number] : calls) least = std::min(least, number);
  CallsByProcess equal;
  for (const auto& [process, number] : calls) equal[process] = least;
  return equal;
}

std::int64_t MostOf(const std::map<base::ProcessId, std::int64_t>& since) {
  std::int64_t most = 0;
  for (const auto& [process, calls] : since) most = std::max(most, calls);
  return most;
}

// Returns the largest difference between two of the numbers.
template <typename Number>
std::uint64_t SpreadOf(const std::map<base::ProcessId, Number>& numbers) {
  if (numbers.empty()) return 0;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end(), less);
  return static_cast<std::uint64_t>(most->second) - static_cast<std::uint64_t>(least->second);
}

}  // namespace

std::map<base::ProcessId, unsigned> LockstepTracker::Behind(const CallsByProcess& now) const {
  std::map<base::ProcessId, unsigned> behind;
  if (pause > 0) return behind;
  const auto since = Since(Assumed(now), now);
  const std::int64_t most = MostOf(since);
  for (const auto& [process, calls] : since) {
    if (most - calls > kFarthestBehind) return {};
    behind[process] = static_cast<unsigned>(most - calls);
  }
  return behind;
}

void LockstepTracker::LearnCut(const CallsByProcess& now, Way way, std::chrono::nanoseconds took) {
  const CallsByProcess assumed = Assumed(now);
  // Where Behind had an answer (as far as the calls at the cut tell) and nobody was behind, the cut was an
  // easy one.
  if (way == Way::kWithout && (assumed.empty() || pause > 0))
    usual = usual.count() == 0 ? took : (3 * usual + took) / 4;
  if (pause > 0) --pause;
  if (way == Way::kAligned || way == Way::kAlignedAndMore) {
    const bool slow = usual.count() == 0 ? way == Way::kAlignedAndMore : 4 * took > 5 * usual;
    misses = way == Way::kAligned ? 0 : misses + 1;
    proven = misses < 2 && (proven || way == Way::kAligned);
    if (misses > 0 && misses % 2 == 0) assumes_equal = !assumes_equal;
    if (slow)
      Doubt();
    else
      failures = 0;
  }
  const bool first = calls_at_cut.empty();
  const auto since = Since(first ? assumed : calls_at_cut, now);
  const std::int64_t most = MostOf(since);
  holds = !since.empty() && SpreadOf(since) <= kApart && (first || most > 0);
  proven = proven && holds;
  if (!holds) ahead.clear();
  if (way != Way::kAligned && !now.empty()) {
    ahead.push_back(Ahead(now));
    if (ahead.size() > kCutsRemembered) ahead.pop_front();
  }
  const bool needed_more = way == Way::kWithout || way == Way::kAlignedAndMore;
  if (!holds || (needed_more && !proven) || (first && !proven)) {
    calls_at_cut = SamePlace(now);
    return;
  }
  // At a cut one may be somewhat further than another, though both are at the same place.
  if (first) calls_at_cut = assumed;
  for (auto& [process, calls] : calls_at_cut) calls += static_cast<std::uint64_t>(most);
}

CallsByProcess LockstepTracker::Assumed(const CallsByProcess& now) const {
  if (calls_at_cut.empty() && SpreadOf(now) <= kApart) return Equal(now);
  return holds ? calls_at_cut : CallsByProcess{};
}

CallsByProcess LockstepTracker::SamePlace(const CallsByProcess& now) const {
  if (now.empty()) return {};
  std::map<base::ProcessId, std::int64_t> apart = Ahead(now);
  for (auto& [process, calls] : apart) {
    std::vector<std::int64_t> each;
    for (const auto& cut : ahead) each.push_back(cut.at(process));
    if (!each.empty()) calls = MedianOf(std::move(each));
  }
  if (assumes_equal && SpreadOf(apart) <= kNearlyEqual) return Equal(now);
  const std::uint64_t middle = MiddleOf(now);
  CallsByProcess place;
  for (const auto& [process, calls] : apart) place[process] = middle + static_cast<std::uint64_t>(calls);
  return place;
}

void LockstepTracker::Doubt() {
  if (++failures < 2) return;
  proven = false;
  pause = 1u << std::min(failures - 2, kLongestPause);
}

}  // namespace gpuman::share
