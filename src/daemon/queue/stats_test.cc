#include "daemon/queue/stats.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

jobs::RunAccount Took(std::int64_t job, const char* user, const char* project, std::vector<std::string> gpus,
                      int seconds, const char* outcome) {
  jobs::RunAccount run;
  run.job = {job};
  run.user = user;
  run.project = project;
  run.gpus = std::move(gpus);
  run.memory = base::Bytes{10};
  run.waited = base::Millis(1000);
  run.ran = base::Millis(1000 * seconds);
  run.outcome = outcome;
  return run;
}

TEST(Stats, AddsUpByUserProjectOrGpu) {
  for (const auto& [by, names] : {std::pair{StatsBy::kUser, std::vector<std::string>{"ann", "bob"}},
                                  std::pair{StatsBy::kProject, std::vector<std::string>{"", "vision"}},
                                  std::pair{StatsBy::kGpu, std::vector<std::string>{"GPU-a", "GPU-b"}}}) {
    Stats stats(by);
    stats.Add(Took(1, "ann", "vision", {"GPU-a", "GPU-b"}, 3600, "finished"));
    stats.Add(Took(2, "bob", "", {"GPU-a"}, 1800, "failed"));
    const auto view = stats.View();
    ASSERT_EQ(view.rows.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(view.rows[i].name, names[i]);
    double hours = 0;
    for (const auto& row : view.rows) hours += row.gpu_hours;
    EXPECT_DOUBLE_EQ(hours, 2.5) << "no GPU-hour is counted twice";
    EXPECT_DOUBLE_EQ(view.total.gpu_hours, 2.5);
    EXPECT_DOUBLE_EQ(view.total.gpu_byte_hours, 25);
    EXPECT_EQ(view.total.success, 0.5);
    EXPECT_EQ(view.total.wait_mean, base::Millis(1000));
  }
}

TEST(Stats, AJobThatHasNotEndedCountsWithoutASuccessRate) {
  Stats stats(StatsBy::kUser);
  jobs::Job job;
  job.owner = jobs::JobOwner{.user = "ann"};
  job.state = spec::JobState::kHeld;
  stats.Add(job);
  job.state = spec::JobState::kRunning;
  stats.Add(job);
  const auto view = stats.View();
  ASSERT_EQ(view.rows.size(), 1U);
  EXPECT_EQ(view.rows[0].queued, 1);
  EXPECT_EQ(view.rows[0].running, 1);
  EXPECT_EQ(view.rows[0].success, std::nullopt);
}

TEST(Stats, AJobCountsOnceByItsLastRun) {
  for (const auto by : {StatsBy::kUser, StatsBy::kProject, StatsBy::kGpu}) {
    Stats stats(by);
    stats.Add(Took(1, "ann", "", {"GPU-a"}, 60, "failed"));  // it was tried again
    stats.Add(Took(1, "ann", "", {"GPU-a"}, 60, "killed"));  // its owner restarted it
    stats.Add(Took(1, "ann", "", {"GPU-a"}, 60, "finished"));
    stats.Add(Took(2, "ann", "", {"GPU-a"}, 60, "failed"));
    for (const auto& row : {stats.View().rows.at(0), stats.View().total}) {
      EXPECT_EQ(row.jobs, 2);
      EXPECT_EQ(row.runs, 4);
      EXPECT_EQ(row.finished, 1);
      EXPECT_EQ(row.failed, 1);
      EXPECT_EQ(row.killed, 0);
      EXPECT_EQ(row.success, 0.5);
      EXPECT_EQ(row.run_mean, base::Millis(60'000)) << "of a run";
    }
  }
}

TEST(Stats, ARunOfAJobThatGoesOnIsNoSuccessOrFailure) {
  Stats stats(StatsBy::kUser);
  jobs::Job job;
  job.id = {1};
  job.owner = jobs::JobOwner{.user = "ann"};
  job.state = spec::JobState::kRunning;
  stats.Add(job);
  stats.Add(Took(1, "ann", "", {"GPU-a"}, 60, "killed"));  // restarted
  const auto view = stats.View();
  ASSERT_EQ(view.rows.size(), 1U);
  EXPECT_EQ(view.rows[0].jobs, 0);
  EXPECT_EQ(view.rows[0].killed, 0);
  EXPECT_EQ(view.rows[0].runs, 1);
  EXPECT_EQ(view.rows[0].running, 1);
  EXPECT_EQ(view.rows[0].success, std::nullopt);
  EXPECT_GT(view.rows[0].gpu_hours, 0) << "what it took it took";
}

TEST(Stats, ACancelledJobIsNotPartOfTheSuccessRate) {
  Stats stats(StatsBy::kUser);
  stats.Add(Took(1, "ann", "", {"GPU-a"}, 60, "finished"));
  stats.Add(Took(2, "ann", "", {"GPU-a"}, 60, "cancelled"));
  stats.Add(Took(3, "ann", "", {"GPU-a"}, 60, "killed"));
  stats.Add(Took(4, "bob", "", {"GPU-a"}, 60, "cancelled"));
  const auto view = stats.View();
  EXPECT_EQ(view.rows.at(0).jobs, 3);
  EXPECT_EQ(view.rows.at(0).success, 0.5) << "of two: one was ended at its limit";
  EXPECT_EQ(view.rows.at(1).success, std::nullopt);
}

TEST(Stats, TellsWhatRunsOfANameHaveUsed) {
  Stats stats(StatsBy::kName);
  for (std::uint64_t i = 1; i <= 20; ++i) {
    auto run = Took(static_cast<std::int64_t>(i), "ann", "", {"GPU-a", "GPU-b"}, 60, "finished");
    run.name = "train";
    run.peak = base::MiB(i);
    stats.Add(run);
  }
  auto unknown = Took(21, "ann", "", {"GPU-a"}, 60, "finished");
  unknown.name = "eval";
  stats.Add(unknown);
  const auto view = stats.View();
  ASSERT_EQ(view.rows.size(), 2U);
  EXPECT_EQ(view.by, "name");
  EXPECT_EQ(view.rows[0].name, "eval");
  EXPECT_FALSE(view.rows[0].peak) << "unknown is no 0";
  const auto peak = view.rows[1].peak;
  ASSERT_TRUE(peak);
  EXPECT_EQ(peak->runs, 20);
  EXPECT_EQ(peak->median, base::MiB(10));
  EXPECT_EQ(peak->p95, base::MiB(19));
  EXPECT_EQ(peak->most, base::MiB(20));
  ASSERT_TRUE(view.total.peak);
  EXPECT_EQ(view.total.peak->runs, 20);
  EXPECT_EQ(view.total.runs, 21);
}

TEST(Stats, TellsHowLongRunsOfANameTookAndHowBusyTheirGpusWere) {
  Stats stats(StatsBy::kName);
  for (int i = 1; i <= 20; ++i) {
    auto run = Took(i, "ann", "", {"GPU-a", "GPU-b"}, 60 * i, "finished");
    run.name = "train";
    if (i > 10) run.utilization = i;
    stats.Add(run);
  }
  const auto view = stats.View();
  ASSERT_EQ(view.rows.size(), 1U);
  for (const auto& row : {view.rows[0], view.total}) {
    ASSERT_TRUE(row.run_time);
    EXPECT_EQ(row.run_time->runs, 20);
    EXPECT_EQ(row.run_time->median, base::Millis(600'000));
    EXPECT_EQ(row.run_time->p95, base::Millis(1'140'000));
    EXPECT_EQ(row.run_time->most, base::Millis(1'200'000));
    ASSERT_TRUE(row.utilization);
    EXPECT_EQ(row.utilization->runs, 10);
    EXPECT_EQ(row.utilization->median, 15);
    EXPECT_EQ(row.utilization->p95, 20);
    EXPECT_EQ(row.utilization->most, 20);
  }
}

TEST(Stats, WhatIsNotKnownOfAnyRunIsUnknown) {
  Stats stats(StatsBy::kName);
  stats.Add(Took(1, "ann", "", {"GPU-a"}, 60, "finished"));
  EXPECT_FALSE(stats.View().rows.at(0).utilization) << "unknown is no 0";
  EXPECT_FALSE(Stats(StatsBy::kName).View().total.run_time) << "there was no run";
  Stats cut(StatsBy::kName);
  cut.Add(Took(1, "ann", "", {"GPU-a"}, 3600, "timeout"));
  EXPECT_FALSE(cut.View().rows.at(0).run_time) << "how long it needs is not known";
}

TEST(Stats, MedianOfOneRunIsItsPeak) {
  Stats stats(StatsBy::kUser);
  auto run = Took(1, "ann", "", {"GPU-a"}, 60, "finished");
  run.peak = base::MiB(7);
  stats.Add(run);
  const auto peak = stats.View().rows.at(0).peak;
  ASSERT_TRUE(peak);
  EXPECT_EQ(peak->median, base::MiB(7));
  EXPECT_EQ(peak->p95, base::MiB(7));
  EXPECT_EQ(peak->most, base::MiB(7));
}

TEST(Stats, UnusedMemoryOfExclusiveRunsIsAddedUp) {
  Stats stats(StatsBy::kUser);
  auto run = Took(1, "ann", "", {"GPU-a", "GPU-b"}, 3600, "finished");
  run.peak = base::Bytes{4};
  stats.Add(run);
  run.peak = base::Bytes{40};  // more than its share: it is of one GPU
  stats.Add(run);
  stats.Add(Took(2, "ann", "", {"GPU-a"}, 3600, "finished"));
  stats.Add(Took(3, "bob", "", {"GPU-a"}, 3600, "finished"));
  const auto view = stats.View();
  EXPECT_EQ(view.rows.at(0).gpu_byte_hours, 50);
  EXPECT_EQ(view.rows.at(0).gpu_byte_hours_known, 40);
  EXPECT_EQ(view.rows.at(0).gpu_byte_hours_unused, 12);
  EXPECT_EQ(view.rows.at(1).gpu_byte_hours_unused, std::nullopt) << "unknown is no 0";
}

TEST(Stats, ByDayAddsUpTheRunsThatEndedOnIt) {
  Stats stats(StatsBy::kDayOfEnd);
  for (const std::int64_t hour : {1, 23, 25}) {
    auto run = Took(hour, "ann", "", {"GPU-a", "GPU-b"}, 3600, "finished");
    run.ended = base::WallTime(base::Millis(hour * 3'600'000));
    stats.Add(run);
  }
  jobs::Job job;
  job.state = spec::JobState::kRunning;
  stats.Add(job);
  const auto view = stats.View();
  ASSERT_EQ(view.rows.size(), 2U) << "a job that goes on is of no day yet";
  EXPECT_EQ(view.rows[0].name, "1970-01-01");
  EXPECT_EQ(view.rows[0].gpu_hours, 4);
  EXPECT_EQ(view.rows[1].name, "1970-01-02");
  EXPECT_EQ(view.by, "day");
}

TEST(Stats, HaveCostsWhereAPriceIsSetForWhatIsKnown) {
  const auto view = [](const energy::Prices& prices) {
    Stats stats(StatsBy::kUser, {}, prices);
    auto run = Took(1, "ann", "", {"GPU-a"}, 7200, "finished");
    run.energy = 3.6e6;
    stats.Add(run);
    stats.Add(Took(2, "bob", "", {"GPU-a"}, 3600, "finished"));
    return stats.View();
  };
  const auto both = view({.gpu_hour = 1.5, .kwh = 0.25, .currency = "EUR"});
  EXPECT_EQ(both.rows.at(0).cost, 3.25);
  EXPECT_EQ(both.rows.at(1).cost, 1.5);
  EXPECT_EQ(both.total.cost, 4.75);
  EXPECT_EQ(both.currency, "EUR");
  EXPECT_EQ(view({.kwh = 0.25}).rows.at(1).cost, std::nullopt) << "its energy is not known";
  const auto none = view({.currency = "EUR"});
  EXPECT_EQ(none.total.cost, std::nullopt);
  EXPECT_EQ(none.currency, std::nullopt);
}

TEST(Stats, FilterByUserLeavesOutRunsOfOthers) {
  Stats stats(StatsBy::kName, "ann");
  for (const char* user : {"ann", "bob"}) {
    auto run = Took(1, user, "", {"GPU-a"}, 60, "finished");
    run.name = std::string("of ") + user;
    stats.Add(run);
    jobs::Job job;
    job.owner = jobs::JobOwner{.user = user};
    job.tag = run.name;
    job.state = spec::JobState::kRunning;
    stats.Add(job);
  }
  const auto view = stats.View();
  ASSERT_EQ(view.rows.size(), 1U);
  EXPECT_EQ(view.rows[0].name, "of ann");
  EXPECT_EQ(view.total.runs, 1);
  EXPECT_EQ(view.total.running, 1);
}

TEST(Stats, UnknownGroupingIsRefused) {
  EXPECT_TRUE(ParseStatsBy("gpu"));
  EXPECT_TRUE(ParseStatsBy("name"));
  EXPECT_FALSE(ParseStatsBy("moon"));
}

}  // namespace
}  // namespace gpuman::daemon
