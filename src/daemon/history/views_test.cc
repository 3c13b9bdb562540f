#include "daemon/history/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using history::JobActivityState;
using history::Metric;
using testing::ElementsAre;
using testing::Eq;

TEST(HistoryView, HasANumberForEachBucketAndNullForAGap) {
  history::HistorySample reading;
  reading[Metric::kMemory] = 1024;
  reading[Metric::kPower] = 5005;
  history::Row row = history::RowOf(100, reading);
  reading[Metric::kMemory] = 1027;
  reading[Metric::kPower] = std::nullopt;
  reading.state = JobActivityState::kWaiting;
  history::AddTo(row, history::RowOf(101, reading));
  const history::Plan plan{1, 100, 120, 10};
  const auto view = HistoryViewOf(plan, {row, history::Row{}}, history::SubjectKind::kJob);
  EXPECT_EQ(base::FormatIso8601(view.since), "1970-01-01T00:01:40.000Z");
  EXPECT_EQ(view.step, base::Millis(10'000));
  EXPECT_EQ(view.resolution, base::Millis(10'000));
  EXPECT_THAT(view.recorded, ElementsAre(0.2, 0));
  EXPECT_THAT(view.memory.mean, ElementsAre(Eq(1026 * 1024), Eq(std::nullopt)));
  EXPECT_THAT(view.memory.min, ElementsAre(Eq(1024 * 1024), Eq(std::nullopt)));
  EXPECT_THAT(view.memory.max, ElementsAre(Eq(1027 * 1024), Eq(std::nullopt)));
  EXPECT_THAT(view.power_w.mean, ElementsAre(Eq(500.5), Eq(std::nullopt)));
  EXPECT_THAT(view.utilization.max, ElementsAre(Eq(std::nullopt), Eq(std::nullopt)));
  EXPECT_THAT(view.states->running, ElementsAre(Eq(0.5), Eq(std::nullopt)));
  EXPECT_THAT(view.states->waiting, ElementsAre(Eq(0.5), Eq(std::nullopt)));
  EXPECT_THAT(view.states->suspended, ElementsAre(Eq(0.0), Eq(std::nullopt)));
  EXPECT_FALSE(HistoryViewOf(plan, {row, row}, history::SubjectKind::kGpu).states);
}

// The same second may be there twice, where the clock was set back.
TEST(HistoryView, IsNeverRecordedMoreThanWhole) {
  history::Row row = history::RowOf(100, {});
  history::AddTo(row, row);
  EXPECT_THAT(HistoryViewOf({0, 100, 101, 1}, {row}, history::SubjectKind::kGpu).recorded, ElementsAre(1));
}

}  // namespace
}  // namespace gpuman::daemon
