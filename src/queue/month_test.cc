// A month of a shared lab under three schedulers. Prints the table of docs/scheduler.md.
#include "queue/month.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "queue/room.h"

namespace gpuman::queue {
namespace {

// Those that fit, one after the other: in the order they came (first fit), or of higher priority first and
// then in that order (gflow). Nothing is kept for who does not fit, and nobody is preempted or moved.
Plan Greedy(const Snapshot& snapshot, WallTime now, bool by_priority) {
  std::vector<Index> order(snapshot.waiting.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](Index a, Index b) {
    const Waiting &x = snapshot.waiting[a], &y = snapshot.waiting[b];
    return std::tuple(by_priority ? -x.priority : 0, x.since, x.id) <
           std::tuple(by_priority ? -y.priority : 0, y.since, y.id);
  });
  Room room(snapshot, now);
  Plan plan;
  for (const Index each : order) {
    const Waiting& job = snapshot.waiting[each];
    const Wish wish{.need = snapshot.needs[job.need], .user = job.user, .job = job.id};
    if (const auto gpus = room.Find(wish)) {
      room.Take(wish, *gpus);
      plan.starts.push_back({job.id, each, *gpus});
    }
  }
  return plan;
}

struct Result {
  double mean_wait, p95_wait, firm_p95,
      wide_p95;                  // hours; firm: with a time limit, not preemptible; wide: 4 and 8 GPUs
  double utilization, fairness;  // part; 1 is best
};

// Jain's index: 1 where all are equal, 1/n where one has all.
double Jain(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return sum * sum / (static_cast<double>(values.size()) * squares);
}

double Hours(Millis time) { return std::chrono::duration<double, std::ratio<3600>>(time).count(); }

double Percentile95(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() * 95 / 100];
}

// Waiting is all time between submission and end that a job did not run. A user's share is the part of their
// jobs' time that these ran.
Result Replay(std::uint64_t seed, int sessions, const Simulator::Policy& policy) {
  Simulator world(kMonthGpus, policy);
  for (SimulatedJob& job : Month(seed).Make(sessions)) world.Submit(std::move(job));
  world.Run();
  std::vector<double> waits, firm, wide;
  std::map<std::string, std::pair<double, double>> users;
  for (const SimulatedJob& job : world.jobs()) {
    EXPECT_TRUE(job.ended);
    const double run = Hours(job.run), wait = Hours(*job.ended - job.submit) - run;
    waits.push_back(wait);
    if (job.request.time_limit && !job.request.preemptible) firm.push_back(wait);
    if (job.request.gpus.count >= 4) wide.push_back(wait);
    users[job.user].first += run;
    users[job.user].second += run + wait;
  }
  std::vector<double> shares;
  for (const auto& [user, times] : users) shares.push_back(times.first / times.second);
  const WallTime end = kStart + std::chrono::hours(24 * kMonthDays);
  return {std::accumulate(waits.begin(), waits.end(), 0.0) / static_cast<double>(waits.size()),
          Percentile95(waits),
          Percentile95(firm),
          Percentile95(wide),
          world.GpuHours(end) / (kMonthGpus * 24.0 * kMonthDays),
          Jain(shares)};
}

constexpr int kSessions = 1000;
constexpr std::array kNames{"first fit", "gflow's order", "gpuman"};
using Month3 = std::array<Result, kNames.size()>;

void Print(std::string_view what, const Month3& results) {
  fmt::print("{:<14} mean wait  p95 wait  p95 firm  p95 of 4 and 8 GPUs  utilization  fairness\n", what);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const Result& r = results[i];
    fmt::print("{:<14} {:>7.2f} h {:>7.2f} h {:>7.2f} h {:>18.2f} h {:>10.1f} % {:>9.3f}\n", kNames[i],
               r.mean_wait, r.p95_wait, r.firm_p95, r.wide_p95, 100 * r.utilization, r.fairness);
  }
}

// docs/scheduler.md says why not each figure is better.
TEST(QueueMonth, ALabWaitsLessThanUnderFirstFitAndGflowsOrderAndWideJobsFarLess) {
  Month3 mean{};
  const int months = 5;
  for (int seed = 1; seed <= months; ++seed) {
    const auto replay = [&](const Simulator::Policy& policy) {
      return Replay(static_cast<std::uint64_t>(seed), kSessions, policy);
    };
    const Month3 month{replay([](const auto& s, WallTime now) { return Greedy(s, now, false); }),
                       replay([](const auto& s, WallTime now) { return Greedy(s, now, true); }),
                       replay([](const auto& s, WallTime now) { return Pass(s, now); })};
    Print(fmt::format("month {}", seed), month);
    for (std::size_t i = 0; i < month.size(); ++i)
      for (const auto field : {&Result::mean_wait, &Result::p95_wait, &Result::firm_p95, &Result::wide_p95,
                               &Result::utilization, &Result::fairness})
        mean[i].*field += month[i].*field / months;
  }
  Print("all months", mean);
  const auto& [first_fit, gflow, ours] = mean;
  for (const Result& other : {first_fit, gflow}) {
    EXPECT_LT(ours.mean_wait, other.mean_wait);
    EXPECT_LT(ours.wide_p95, 0.6 * other.wide_p95);
    EXPECT_GT(ours.utilization, other.utilization - 0.005);
  }
  EXPECT_GT(ours.fairness, gflow.fairness);
}

}  // namespace
}  // namespace gpuman::queue
