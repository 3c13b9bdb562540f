#include "metrics/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::metrics {
namespace {

using ::testing::HasSubstr;

TEST(Escape, KeepsALabelOnItsLineAndBetweenItsQuotes) {
  EXPECT_EQ(Escape("plain ünï 日本 🙂"), "plain ünï 日本 🙂");
  EXPECT_EQ(Escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
}

TEST(Escape, ReplacesEachByteThatIsNotUtf8) {
  EXPECT_EQ(Escape("a\xff"
                   "b"),
            "a?b");
  EXPECT_EQ(Escape("\xc3"), "?");                 // cut off
  EXPECT_EQ(Escape("\xc0\x80"), "??");            // overlong
  EXPECT_EQ(Escape("\xed\xa0\x80"), "???");       // half of a surrogate pair
  EXPECT_EQ(Escape("\xf4\x90\x80\x80"), "????");  // beyond Unicode
  EXPECT_EQ(Escape("\xe2\x82"), "??");
}

TEST(Exposition, HasEachFamilyOnceInTheOrderOfTheTable) {
  Exposition out;
  out.Add(MetricId::kQueuePaused, {}, true);
  out.Add(MetricId::kGpuUp, Labels("gpu", "1"), false);
  out.Add(MetricId::kGpuUp, Labels("gpu", "0"), true);
  EXPECT_EQ(out.Text(),
            "# HELP gpuman_gpu_up 1 where the driver answers about the GPU, 0 where it is lost or silent.\n"
            "# TYPE gpuman_gpu_up gauge\n"
            "gpuman_gpu_up{gpu=\"1\"} 0\n"
            "gpuman_gpu_up{gpu=\"0\"} 1\n"
            "# HELP gpuman_queue_paused 1 while the queue starts nothing.\n"
            "# TYPE gpuman_queue_paused gauge\n"
            "gpuman_queue_paused 1\n");
}

TEST(Exposition, LeavesOutWhatIsNotKnown) {
  Exposition out;
  out.Add(MetricId::kGpuTemperature, Labels("gpu", "0"), std::optional<int>());
  EXPECT_EQ(out.Text(), "");
  out.Add(MetricId::kGpuTemperature, Labels("gpu", "0"), std::optional<int>(0));
  EXPECT_THAT(out.Text(), HasSubstr("gpuman_gpu_temperature_celsius{gpu=\"0\"} 0\n"));
}

TEST(Exposition, AddsUpTheBucketsOfAHistogram) {
  base::Histogram histogram({0.5, 2});
  for (const double value : {0.1, 1.0, 1.5, 7.0}) histogram.Observe(value);
  Exposition out;
  out.Add(MetricId::kShareHandOver, Labels("gpu", "0"), histogram);
  EXPECT_THAT(out.Text(), HasSubstr("# TYPE gpuman_share_hand_over_seconds histogram\n"
                                    "gpuman_share_hand_over_seconds_bucket{gpu=\"0\",le=\"0.5\"} 1\n"
                                    "gpuman_share_hand_over_seconds_bucket{gpu=\"0\",le=\"2\"} 3\n"
                                    "gpuman_share_hand_over_seconds_bucket{gpu=\"0\",le=\"+Inf\"} 4\n"
                                    "gpuman_share_hand_over_seconds_sum{gpu=\"0\"} 9.6\n"
                                    "gpuman_share_hand_over_seconds_count{gpu=\"0\"} 4\n"));
}

TEST(Exposition, WritesLargeNumbersWhole) {
  Exposition out;
  out.Add(MetricId::kGpuMemoryTotal, {}, std::uint64_t{150'754'820'096});
  EXPECT_THAT(out.Text(), HasSubstr("gpuman_gpu_memory_total_bytes 150754820096\n"));
}

}  // namespace
}  // namespace gpuman::metrics
