#include "queue/priority.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace gpuman::queue {
namespace {

constexpr double kFloorSeconds = 3600;
constexpr std::size_t kFew = 1000;  // below, comparing is quicker than counting

JobId IdOf(const Snapshot& snapshot, std::uint32_t entry) {
  const std::size_t waiting = snapshot.waiting.size();
  return entry < waiting ? snapshot.waiting[entry].id : snapshot.running[entry - waiting].id;
}

// Least significant digit first, 11 bits at a time: stable, and it stops at the highest digit there is.
void RadixSort(std::vector<Ranked>& ranked) {
  constexpr unsigned kBits = 11;
  constexpr std::size_t kBuckets = std::size_t{1} << kBits;
  const auto digit = [](const Ranked& each, unsigned shift) {
    return (static_cast<std::uint64_t>(each.rank) >> shift) % kBuckets;
  };
  std::uint64_t most = 0;
  for (const Ranked& each : ranked) most = std::max(most, static_cast<std::uint64_t>(each.rank));
  std::vector<Ranked> other(ranked.size());
  for (unsigned shift = 0; shift < 64 && (most >> shift) != 0; shift += kBits) {
    std::array<std::uint32_t, kBuckets> starts{};
    for (const Ranked& each : ranked) ++starts[digit(each, shift)];
    std::uint32_t sum = 0;
    for (auto& start : starts) sum += std::exchange(start, sum);
    for (const Ranked& each : ranked) other[starts[digit(each, shift)]++] = each;
    ranked.swap(other);
  }
}

void SortEqualsById(const Snapshot& snapshot, std::vector<Ranked>& ranked) {
  const auto by_id = [&](const Ranked& a, const Ranked& b) {
    return IdOf(snapshot, a.entry) < IdOf(snapshot, b.entry);
  };
  for (auto first = ranked.begin(); first != ranked.end();) {
    auto last = first + 1;
    while (last != ranked.end() && last->rank == first->rank) ++last;
    if (last - first > 1 && !std::is_sorted(first, last, by_id)) std::sort(first, last, by_id);
    first = last;
  }
}

}  // namespace

Rate RateOf(const Snapshot& snapshot, const Need& need) {
  const double gpus = need.gpus;
  if (!need.share || snapshot.gpus.empty()) return {gpus, gpus};
  const double whole = static_cast<double>(std::max<std::uint64_t>(1, snapshot.gpus.front().memory.count));
  return {gpus, gpus * std::min(1.0, static_cast<double>(need.memory.count) / whole)};
}

std::vector<double> FairShares(const Snapshot& snapshot, WallTime now) {
  const Settings& settings = snapshot.settings;
  std::vector<Usage> usage;
  for (const Account& user : snapshot.users) usage.push_back(user.usage);
  std::vector<bool> active(usage.size(), false);
  // By id: sums of floating point numbers depend on the order.
  std::vector<const Running*> running;
  for (const Running& job : snapshot.running) running.push_back(&job);
  std::sort(running.begin(), running.end(), [](const Running* a, const Running* b) { return a->id < b->id; });
  for (const Running* each : running) {
    const Running& job = *each;
    usage[job.user].Add(RateOf(snapshot, snapshot.needs[job.need]), now - job.ran, now, settings.half_life);
    active[job.user] = true;
  }
  for (const Waiting& job : snapshot.waiting) active[job.user] = true;

  std::vector<double> used;
  double shares = 0, sum = 0;
  for (std::size_t i = 0; i < usage.size(); ++i) {
    used.push_back(usage[i].At(now, settings.half_life, settings.memory_weight));
    sum += used[i];
    if (!active[i] && used[i] < 1) continue;
    shares += snapshot.users[i].shares;
  }
  const auto users = static_cast<double>(std::count(active.begin(), active.end(), true));
  sum = std::max(sum, kFloorSeconds * std::max(1.0, users));
  std::vector<double> fair;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const double share = shares > 0 ? snapshot.users[i].shares / shares : 1;
    fair.push_back(share > 0 ? std::exp2(-used[i] / sum / share) : 0);
  }
  return fair;
}

Ranks::Ranks(const Snapshot& snapshot, WallTime now) : step_(snapshot.settings.priority_step.count()) {
  const Settings& settings = snapshot.settings;
  const auto fair_share = static_cast<double>(settings.fair_share.count());
  for (const double fair : FairShares(snapshot, now))
    of_user_.push_back(static_cast<std::int64_t>(fair_share * fair));
  const auto short_job = static_cast<double>(settings.short_job.count());
  of_need_.reserve(snapshot.needs.size());
  for (const Need& need : snapshot.needs) {
    const double halvings =
        static_cast<double>(need.time_limit.count()) / static_cast<double>(settings.short_scale.count());
    const double worth = need.time_limit.count() > 0 ? short_job * std::exp2(-halvings) : 0;
    of_need_.push_back(static_cast<std::int64_t>(worth));
  }
}

void Sort(const Snapshot& snapshot, std::vector<Ranked>& ranked) {
  std::int64_t first = INT64_MAX;
  for (const Ranked& each : ranked) first = std::min(first, each.rank);
  for (Ranked& each : ranked) each.rank -= first;
  if (ranked.size() < kFew)
    std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.rank < b.rank; });
  else
    RadixSort(ranked);
  SortEqualsById(snapshot, ranked);
}

}  // namespace gpuman::queue
