#include "queue/priority.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace gpuman::queue {
namespace {

constexpr double kFloorSeconds = 3600;

JobId IdOf(const Snapshot& snapshot, std::uint32_t entry) {
  const std::size_t waiting = snapshot.waiting.size();
  return entry < waiting ? snapshot.waiting[entry].id : snapshot.running[entry - waiting].id;
}

// Least significant digit first, 11 bits at a time: stable, and it stops at the highest digit there is.
void RadixSort(std::vector<Ranked>& ranked) {
  constexpr unsigned kBits = 11;
  constexpr std::size_t kBuckets = std::size_t{1} << kBits;
  std::uint64_t most = 0;
  for (const Ranked& each : ranked) most = std::max(most, each.rank);
  std::vector<Ranked> other(ranked.size());
  for (unsigned shift = 0; shift < 64 && (most >> shift) != 0; shift += kBits) {
    std::array<std::uint32_t, kBuckets> starts{};
    for (const Ranked& each : ranked) ++starts[(each.rank >> shift) % kBuckets];
    std::uint32_t sum = 0;
    for (auto& start : starts) sum += std::exchange(start, sum);
    for (const Ranked& each : ranked) other[starts[(each.rank >> shift) % kBuckets]++] = each;
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

// The ranks, in milliseconds of the wall.
class Ranks {
 public:
  Ranks(const Snapshot& snapshot, WallTime now) : settings_(snapshot.settings) {
    for (const double fair : FairShares(snapshot, now))
      of_user_.push_back(static_cast<std::int64_t>(static_cast<double>(settings_.fair_share.count()) * fair));
    for (const Need& need : snapshot.needs) of_need_.push_back(ShortJob(need.time_limit));
  }

  std::int64_t Of(WallTime since, Index user, Index need, int priority) const {
    return since.time_since_epoch().count() - (priority - kUsualPriority) * settings_.priority_step.count() -
           of_user_[user] - of_need_[need];
  }

 private:
  std::int64_t ShortJob(Millis limit) const {
    if (limit.count() == 0) return 0;
    const double halvings =
        static_cast<double>(limit.count()) / static_cast<double>(settings_.short_scale.count());
    return static_cast<std::int64_t>(static_cast<double>(settings_.short_job.count()) * std::exp2(-halvings));
  }

  const Settings& settings_;
  std::vector<std::int64_t> of_user_{}, of_need_{};
};

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
  for (const Running& job : snapshot.running) {
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

std::vector<Ranked> Rank(const Snapshot& snapshot, const std::vector<std::uint32_t>& entries, WallTime now) {
  const Ranks ranks(snapshot, now);
  const std::size_t waiting = snapshot.waiting.size();
  std::vector<Ranked> ranked;
  ranked.reserve(entries.size());
  std::int64_t first = INT64_MAX;
  for (const std::uint32_t entry : entries) {
    std::int64_t rank = 0;
    if (entry < waiting) {
      const Waiting& job = snapshot.waiting[entry];
      rank = ranks.Of(std::max(job.since, job.begin), job.user, job.need, job.priority);
    } else {
      const Running& job = snapshot.running[entry - waiting];
      rank = ranks.Of(job.since, job.user, job.need, job.priority);
    }
    first = std::min(first, rank);
    ranked.push_back({static_cast<std::uint64_t>(rank), entry});
  }
  for (Ranked& each : ranked) each.rank -= static_cast<std::uint64_t>(first);
  RadixSort(ranked);
  SortEqualsById(snapshot, ranked);
  return ranked;
}

}  // namespace gpuman::queue
