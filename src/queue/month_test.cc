// A month of a shared lab under three schedulers. Prints the table of docs/scheduler.md.
#include "queue/test_month.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "queue/room_checker.h"

namespace gpuman::queue {
namespace {

// Starts the jobs that fit, one after the other: in the order of submission (first fit), or by priority and
// then in that order (gflow). This policy keeps no GPU for a job that does not fit, and preempts and moves no
// job.
Plan Greedy(const Snapshot& snapshot, WallTime now, bool by_priority) {
  std::vector<Index> order(snapshot.waiting.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](Index a, Index b) {
    const WaitingJobInput &x = snapshot.waiting[a], &y = snapshot.waiting[b];
    return std::tuple(by_priority ? -x.priority : 0, x.since, x.id) <
           std::tuple(by_priority ? -y.priority : 0, y.since, y.id);
  });
  RoomChecker room(snapshot, now);
  Plan plan;
  for (const Index each : order) {
    const WaitingJobInput& job = snapshot.waiting[each];
    const PlacementRequest request{.need = snapshot.needs[job.need], .user = job.user, .job = job.id};
    if (const auto gpus = room.Find(request)) {
      room.Take(request, *gpus);
      plan.starts.push_back({job.id, each, *gpus});
    }
  }
  return plan;
}

// The result of one month, in hours unless noted.
struct Result {
  double mean_wait, p95_wait, firm_p95;  // firm: with a time limit, not preemptible
  double wide_p95, longest;              // wide: 4 and 8 GPUs
  double utilization, fairness;          // part; 1 is best
  double slowdown, worst_slowdown;       // mean of all jobs, and of the user with the greatest
};
constexpr std::array kFields{&Result::mean_wait, &Result::p95_wait, &Result::firm_p95,
                             &Result::wide_p95,  &Result::longest,  &Result::utilization,
                             &Result::fairness,  &Result::slowdown, &Result::worst_slowdown};

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Jain's index: 1 if all values are equal, 1/n if all but one are 0.
double Jain(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return Mean(values) * Mean(values) * static_cast<double>(values.size()) / squares;
}

double Hours(Millis time) { return std::chrono::duration<double, std::ratio<3600>>(time).count(); }

double Percentile95(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() * 95 / 100];
}

struct OfUser {
  double ran = 0, took = 0;
  std::vector<double> slowdowns{};
};

// Waiting is all time between submission and end in which a job did not run. A user's share is the part of
// the time from submission to end in which the user's jobs ran. Slowdown is bounded as usual: a job counts as
// ten minutes long at least.
Result Replay(std::uint64_t seed, int sessions, const Simulator::Policy& policy) {
  Simulator world(kMonthGpus, policy);
  for (SimulatedJob& job : Month(seed).Make(sessions)) world.Submit(std::move(job));
  world.Run();
  std::vector<double> waits, firm, wide, slowdowns;
  std::map<std::string, OfUser> users;
  for (const SimulatedJob& job : world.jobs()) {
    EXPECT_TRUE(job.ended);
    const double ran = Hours(job.run), took = Hours(*job.ended - job.submit), wait = took - ran;
    waits.push_back(wait);
    if (job.request.time_limit && !job.request.preemptible) firm.push_back(wait);
    if (job.request.gpus.count >= 4) wide.push_back(wait);
    slowdowns.push_back(std::max(1.0, took / std::max(ran, 1.0 / 6)));
    users[job.user].ran += ran;
    users[job.user].took += took;
    users[job.user].slowdowns.push_back(slowdowns.back());
  }
  std::vector<double> shares;
  double worst = 0;
  for (const auto& [name, user] : users) {
    shares.push_back(user.ran / user.took);
    worst = std::max(worst, Mean(user.slowdowns));
  }
  const WallTime end = kStart + std::chrono::hours(24 * kMonthDays);
  return {Mean(waits),
          Percentile95(waits),
          Percentile95(firm),
          Percentile95(wide),
          *std::max_element(waits.begin(), waits.end()),
          world.GpuHours(end) / (kMonthGpus * 24.0 * kMonthDays),
          Jain(shares),
          Mean(slowdowns),
          worst};
}

constexpr int kSessions = 1000;
constexpr int kMonths = 20;

struct Months {
  Result mean{}, error{};  // the standard error of the mean
};

Months Replay(const Simulator::Policy& policy) {
  std::vector<Result> results;
  for (int seed = 1; seed <= kMonths; ++seed)
    results.push_back(Replay(static_cast<std::uint64_t>(seed), kSessions, policy));
  Months months;
  for (const auto field : kFields) {
    double squares = 0;
    for (const Result& each : results) months.mean.*field += each.*field / kMonths;
    for (const Result& each : results)
      squares += (each.*field - months.mean.*field) * (each.*field - months.mean.*field);
    months.error.*field = std::sqrt(squares) / kMonths;
  }
  return months;
}

void Print(std::string_view name, const Months& months) {
  constexpr std::array kNames{"mean wait",   "95 %",     "95 % firm", "95 % wide",     "longest",
                              "utilization", "fairness", "slowdown",  "worst slowdown"};
  fmt::print("{}\n", name);
  for (std::size_t i = 0; i < kFields.size(); ++i)
    fmt::print("  {:<15} {:8.3f} +- {:.3f}\n", kNames[i], months.mean.*kFields[i], months.error.*kFields[i]);
}

// docs/scheduler.md has the table, and the reason why the 95th percentile is not better too.
TEST(QueueMonth, ALabWaitsLessThanUnderFirstFitAndGflowsOrderAndWideJobsFarLess) {
  const Months first_fit = Replay([](const auto& s, WallTime now) { return Greedy(s, now, false); });
  const Months gflow = Replay([](const auto& s, WallTime now) { return Greedy(s, now, true); });
  const Months all = Replay([](const auto& s, WallTime now) { return Pass(s, now); });
  Print("first fit", first_fit);
  Print("gflow's order", gflow);
  Print("gpuman", all);
  const Result& ours = all.mean;
  for (const Result& other : {first_fit.mean, gflow.mean}) {
    EXPECT_LT(ours.mean_wait, 0.9 * other.mean_wait);
    EXPECT_LT(ours.p95_wait, 1.1 * other.p95_wait);
    EXPECT_LT(ours.firm_p95, 1.05 * other.firm_p95);
    EXPECT_LT(ours.wide_p95, 0.75 * other.wide_p95);
    EXPECT_LT(ours.longest, 0.75 * other.longest);
    EXPECT_GT(ours.utilization, other.utilization - 0.005);
    EXPECT_GT(ours.fairness, other.fairness);
    EXPECT_LT(ours.slowdown, 0.8 * other.slowdown);
    EXPECT_LT(ours.worst_slowdown, 0.8 * other.worst_slowdown);
  }
}

}  // namespace
}  // namespace gpuman::queue
