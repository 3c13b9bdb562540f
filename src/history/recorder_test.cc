#include "history/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "history/test_rows.h"

namespace gpuman::history {
namespace {

std::vector<std::int64_t> TimesOf(const std::vector<Row>& rows) {
  std::vector<std::int64_t> times;
  times.reserve(rows.size());
  for (const Row& row : rows) times.push_back(row.at);
  return times;
}

std::vector<Row> Written(const Batch& batch, const Key& key, std::size_t tier) {
  std::vector<Row> rows;
  for (const SeriesRows& chunk : batch)
    if (chunk.key == key && chunk.tier == tier) rows.insert(rows.end(), chunk.rows.begin(), chunk.rows.end());
  return rows;
}

TEST(Recorder, HoldsAReadingUntilTheNext) {
  Recorder recorder(2);
  recorder.Add(kGpu, 100, Of(1));
  recorder.Add(kGpu, 103, Of(5));
  const auto rows = recorder.RowsOf(kGpu, 0);
  EXPECT_THAT(TimesOf(rows), testing::ElementsAre(100, 101, 102, 103));
  EXPECT_EQ(rows[2][Metric::kMemory].sum, 1);
  EXPECT_EQ(rows[3][Metric::kMemory].sum, 5);
}

TEST(Recorder, LeavesALongerSilenceAsAGap) {
  Recorder recorder(2);
  recorder.Add(kGpu, 100, Of(1));
  recorder.Add(kGpu, 104, Of(5));
  EXPECT_THAT(TimesOf(recorder.RowsOf(kGpu, 0)), testing::ElementsAre(100, 104));
}

TEST(Recorder, HoldsAReadingAlsoWhenItsRowWasTaken) {
  Recorder recorder(2);
  recorder.Add(kGpu, 100, Of(1));
  EXPECT_THAT(TimesOf(Written(recorder.Take(101), kGpu, 0)), testing::ElementsAre(100));
  recorder.Add(kGpu, 100, Of(2));  // late: the second was written
  recorder.Add(kGpu, 102, Of(5));
  EXPECT_THAT(TimesOf(recorder.RowsOf(kGpu, 0)), testing::ElementsAre(101, 102));
}

TEST(Recorder, TakesTheSecondUnderWayWithTheNextBatch) {
  Recorder recorder(2);
  recorder.Add(kGpu, 100, Of(1));
  EXPECT_TRUE(recorder.Take(100).empty());
  recorder.Add(kGpu, 101, Of(1));
  EXPECT_THAT(TimesOf(Written(recorder.Take(101), kGpu, 0)), testing::ElementsAre(100));
}

TEST(Recorder, TakesFullBlocksOfTheCoarserResolutions) {
  Recorder recorder(0);
  std::int64_t at = 1000;
  std::size_t tens = 0;
  for (; at < 1000 + 30'000; ++at) {
    recorder.Add(kGpu, at, Of(at));
    if (at % 60 == 0) {
      const auto rows = Written(recorder.Take(at), kGpu, 1);
      EXPECT_TRUE(rows.empty() || rows.size() >= Recorder::kBlock);
      tens += rows.size();
    }
  }
  EXPECT_GT(tens, 2500u);
  EXPECT_LE(recorder.RowsOf(kGpu, 2).size(), Recorder::kBlock);
}

TEST(Recorder, KeepsTheRowsOfBothTimesWhereTheClockIsSetBack) {
  Recorder recorder(2);
  for (const std::int64_t at : {1000, 1001, 400, 401, 1000}) recorder.Add(kGpu, at, Of(at));
  const Batch batch = recorder.Take(1001);
  EXPECT_THAT(TimesOf(Written(batch, kGpu, 0)), testing::ElementsAre(1000, 1001, 400, 401, 1000));
  for (const SeriesRows& chunk : batch)
    for (std::size_t i = 1; i < chunk.rows.size(); ++i) EXPECT_LT(chunk.rows[i - 1].at, chunk.rows[i].at);
}

TEST(Recorder, WritesAllOfASeriesThatEnded) {
  Recorder recorder(2);
  recorder.Add(kJob, 100, Of(1));
  recorder.End(kJob);
  const auto batch = recorder.Take(101);
  for (std::size_t tier = 0; tier < kTiers; ++tier) EXPECT_EQ(Written(batch, kJob, tier).size(), 1u) << tier;
  EXPECT_TRUE(recorder.RowsOf(kJob, 0).empty());
}

TEST(Recorder, EndsASeriesOfWhichNothingComesAnyMore) {
  Recorder recorder(2);
  recorder.Add(kGpu, 100, Of(1));
  recorder.Take(101);
  EXPECT_EQ(Written(recorder.Take(101 + Recorder::kForgotten), kGpu, 2).size(), 1u);
}

TEST(Recorder, OfTenThousandJobsKeepsNoMoreThanTheBound) {
  Recorder recorder(2);
  for (int i = 0; i < 10'000; ++i) {
    const Key job{SubjectKind::kJob, std::to_string(i)};
    recorder.Add(job, 100, Of(1));
    recorder.End(job);
  }
  EXPECT_LE(recorder.ended(), Recorder::kMaxEnded);
  EXPECT_EQ(recorder.ended() + recorder.dropped(), 30'000u);
  EXPECT_FALSE(recorder.Take(101).empty());
  EXPECT_EQ(recorder.ended(), 0u);
}

TEST(Recorder, ShowsTheRowsUnderWayInEachResolution) {
  Recorder recorder(0);
  recorder.Add(kGpu, 309, Of(4));
  recorder.Add(kGpu, 310, Of(6));
  recorder.Add(kGpu, 311, Of(8));
  Row sum;
  for (const Row& row : recorder.RowsOf(kGpu, 2)) {
    EXPECT_EQ(row.at, 300);
    AddTo(sum, row);
  }
  EXPECT_EQ(sum[Metric::kMemory], (Aggregate{3, 18, 4, 8}));
}

// Recording continues after the replay: the rows are those of a recorder that never stopped.
RC_GTEST_PROP(Recorder, GoesOnAfterAReplay, ()) {
  Recorder whole(0), first(0), second(0);
  const auto count = *rc::gen::inRange(2, 1500);
  const auto cut = *rc::gen::inRange(1, count);
  for (int i = 0; i < count; ++i) {
    const HistorySample reading = Of(*AnyValue());
    whole.Add(kGpu, 1000 + i, reading);
    if (i < cut) first.Add(kGpu, 1000 + i, reading);
    if (i == cut)
      for (const Row& row : Written(first.Take(1000 + i), kGpu, 0)) second.Replay(kGpu, 0, row);
    if (i >= cut) second.Add(kGpu, 1000 + i, reading);
  }
  for (std::size_t tier = 1; tier < kTiers; ++tier)
    RC_ASSERT(whole.RowsOf(kGpu, tier) == second.RowsOf(kGpu, tier));
}

}  // namespace
}  // namespace gpuman::history
