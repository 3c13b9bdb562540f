#include "queue/priority.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace gpuman::queue {
namespace {

constexpr double kFloorSeconds = 3600;
constexpr std::size_t kCountingFrom = 1000;  // below this number, a comparison sort is faster

JobId IdOf(const Snapshot& snapshot, std::uint32_t entry) {
  const std::size_t waiting = snapshot.waiting.size();
  return entry < waiting ? snapshot.waiting[entry].id : snapshot.running[entry - waiting].id;
}

// Sorts by the least significant digit first, 11 bits at a time. It is stable, and stops after the highest
// digit that occurs.
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

// Users of a project, or projects, that share.
struct Level {
  double shares = 0;  // of those that count
  double used = 0;
  double active = 0;  // how many of the users run or want something
  int count = 0;

  void Add(double share, double use, double users) {
    used += use;
    active += users;
    if (users == 0 && use < 1) return;
    shares += share;
    ++count;
  }
  double Part(double use) const { return use / std::max(used, kFloorSeconds * std::max(1.0, active)); }
  FairShare Of(double share, double use) const {
    const double entitled = shares > 0 ? std::min(1.0, share / shares) : 1;
    return {entitled, Part(use), entitled > 0 ? std::exp2(-Part(use) / entitled) : 0};
  }
};

struct Use {
  std::vector<double> seconds{};  // for Snapshot::members
  std::vector<double> active{};   // 1: the member runs or wants something
};

Use UsedBy(const Snapshot& snapshot, WallTime now) {
  const SchedulingSettings& settings = snapshot.settings;
  std::vector<AccountUsage> usage;
  usage.reserve(snapshot.members.size());
  for (const ProjectMember& member : snapshot.members) usage.push_back(member.usage);
  Use use{{}, std::vector<double>(usage.size(), 0)};
  // In the order of ids: sums of floating point numbers depend on the order.
  std::vector<const RunningJobInput*> running;
  for (const RunningJobInput& job : snapshot.running) running.push_back(&job);
  std::sort(running.begin(), running.end(),
            [](const RunningJobInput* a, const RunningJobInput* b) { return a->id < b->id; });
  for (const RunningJobInput* each : running) {
    const RunningJobInput& job = *each;
    usage[job.member].Add(RateOf(snapshot, snapshot.needs[job.need]), now - job.ran, now, settings.half_life);
    use.active[job.member] = 1;
  }
  for (const WaitingJobInput& job : snapshot.waiting) use.active[job.member] = 1;
  for (const AccountUsage& each : usage)
    use.seconds.push_back(each.At(now, settings.half_life, settings.memory_weight));
  return use;
}

}  // namespace

UsageRate RateOf(const Snapshot& snapshot, const Need& need) {
  const double gpus = need.gpus;
  if (!need.share || snapshot.gpus.empty()) return {gpus, gpus};
  const double whole = static_cast<double>(std::max<std::uint64_t>(1, snapshot.gpus.front().memory.count));
  return {gpus, gpus * std::min(1.0, static_cast<double>(need.memory.count) / whole)};
}

Index LevelOf(const Snapshot& snapshot, const ProjectMember& member) {
  return member.project != kNone && snapshot.projects[member.project].shares > 0 ? member.project : kNone;
}

FairShares FairSharesOf(const Snapshot& snapshot, WallTime now) {
  const auto [used, active] = UsedBy(snapshot, now);
  const std::size_t rest = snapshot.projects.size();
  const auto level_of = [&](const ProjectMember& member) {
    const Index project = LevelOf(snapshot, member);
    return project == kNone ? rest : project;
  };
  std::vector<Level> within(rest + 1);
  Level among;
  // All members of one user in projects without shares count as one member, whatever the projects' names are.
  std::vector<double> rest_used(snapshot.users.size(), 0), rest_active(snapshot.users.size(), 0);
  for (std::size_t i = 0; i < used.size(); ++i) {
    const ProjectMember& member = snapshot.members[i];
    if (const std::size_t level = level_of(member); level != rest) {
      within[level].Add(snapshot.users[member.user].shares, used[i], active[i]);
      continue;
    }
    rest_used[member.user] += used[i];
    rest_active[member.user] = std::max(rest_active[member.user], active[i]);
  }
  for (std::size_t user = 0; user < rest_used.size(); ++user)
    within[rest].Add(snapshot.users[user].shares, rest_used[user], rest_active[user]);
  const auto shares_of = [&](std::size_t project) {
    return project == rest ? 1 : snapshot.projects[project].shares;
  };
  for (std::size_t project = 0; project <= rest; ++project)
    among.Add(shares_of(project), within[project].used, within[project].active);

  FairShares fair;
  for (std::size_t project = 0; project <= rest; ++project)
    fair.projects.push_back(among.Of(shares_of(project), within[project].used));
  for (std::size_t i = 0; i < used.size(); ++i) {
    const ProjectMember& member = snapshot.members[i];
    const std::size_t level = level_of(member);
    const FairShare& project = fair.projects[level];
    FairShare own = within[level].Of(snapshot.users[member.user].shares,
                                     level == rest ? rest_used[member.user] : used[i]);
    own.entitled *= project.entitled;
    own.used = among.Part(used[i]);
    if (among.count > 1) own.factor = (project.factor + own.factor) / 2;
    fair.members.push_back(own);
  }
  return fair;
}

Ranks::Ranks(const Snapshot& snapshot, WallTime now) : step_(snapshot.settings.priority_step.count()) {
  const SchedulingSettings& settings = snapshot.settings;
  const auto fair_share = static_cast<double>(settings.fair_share.count());
  for (const FairShare& fair : FairSharesOf(snapshot, now).members)
    of_member_.push_back(static_cast<std::int64_t>(fair_share * fair.factor));
  const auto short_job = static_cast<double>(settings.short_job.count());
  of_need_.reserve(snapshot.needs.size());
  for (const Need& need : snapshot.needs) {
    const Millis limit = need.time_limit.count() > 0 ? need.time_limit : settings.unlimited_as;
    const double halvings =
        static_cast<double>(limit.count()) / static_cast<double>(settings.short_scale.count());
    const double worth = short_job * std::exp2(-halvings);
    of_need_.push_back(static_cast<std::int64_t>(worth));
  }
}

void Sort(const Snapshot& snapshot, std::vector<Ranked>& ranked) {
  std::int64_t first = INT64_MAX;
  for (const Ranked& each : ranked) first = std::min(first, each.rank);
  for (Ranked& each : ranked) each.rank -= first;
  if (ranked.size() < kCountingFrom)
    std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.rank < b.rank; });
  else
    RadixSort(ranked);
  SortEqualsById(snapshot, ranked);
}

}  // namespace gpuman::queue
