#include "health/rules.h"

#include <gtest/gtest.h>

namespace gpuman::health {
namespace {

using base::MonoTime;

MonoTime SeenAt(int seconds) { return MonoTime(std::chrono::seconds(seconds)); }

std::optional<std::string> Holds(RuleEvaluator& watch, MonoTime now, const HealthRuleInput& reading,
                                 std::string_view code) {
  const auto results = watch.Check(now, reading);
  const auto it = results.find(code);
  return it == results.end() ? std::optional<std::string>("not looked at") : it->second;
}

TEST(Rules, HaveACodeAMeaningAndSomethingToDo) {
  for (const Rule& rule : Rules()) {
    EXPECT_EQ(RuleOf(rule.code), &rule);
    EXPECT_FALSE(rule.meaning.empty()) << rule.code;
    EXPECT_NE(rule.state, HealthState::kHealthy) << rule.code;
    EXPECT_NE(rule.action, RepairAction::kNone) << rule.code;
  }
  EXPECT_EQ(RuleOf("nothing"), nullptr);
}

// The number of lanes times the errors a minute at the bit error rate that PCIe allows.
TEST(Rules, ReplaysDependOnTheLink) {
  EXPECT_EQ(ReplaysAllowed(1, 16), 3U);
  EXPECT_EQ(ReplaysAllowed(3, 16), 8U);
  EXPECT_EQ(ReplaysAllowed(4, 16), 16U);
  EXPECT_EQ(ReplaysAllowed(5, 16), 31U);
  EXPECT_EQ(ReplaysAllowed(6, 16), 62U);
  EXPECT_EQ(ReplaysAllowed(5, 1), 2U);
  EXPECT_EQ(ReplaysAllowed(0, 16), std::nullopt);
  EXPECT_EQ(ReplaysAllowed(7, 16), std::nullopt);
}

TEST(Rules, ReplaysWithinWhatIsAllowedAreNone) {
  RuleEvaluator watch;
  HealthRuleInput reading{{.pcie_replays = 1000, .pcie_generation = 5, .pcie_lanes = 16}};
  watch.Check(SeenAt(0), reading);
  reading.pcie_replays = 1031;
  EXPECT_EQ(Holds(watch, SeenAt(60), reading, "pcie_replays"), std::nullopt);
  reading.pcie_replays = 1064;
  EXPECT_EQ(Holds(watch, SeenAt(120), reading, "pcie_replays"),
            "33 transfers a minute were repeated on the bus; PCIe 5 x16 may have 31");
}

TEST(Rules, ThresholdsAreWhereTheTableHasThem) {
  RuleEvaluator watch;
  EXPECT_EQ(Holds(watch, SeenAt(0), {{.retired_pages = 62}}, "retired_pages"), std::nullopt);
  EXPECT_EQ(Holds(watch, SeenAt(0), {{.retired_pages = 63}}, "retired_pages"),
            "63 pages of its memory are retired");
  EXPECT_EQ(Holds(watch, SeenAt(0), {{.uncorrectable_remaps = 511}}, "row_remaps"), std::nullopt);
  EXPECT_NE(Holds(watch, SeenAt(0), {{.uncorrectable_remaps = 512}}, "row_remaps"), std::nullopt);
  EXPECT_EQ(Holds(watch, SeenAt(0), {{.double_bit_errors = 0}}, "double_bit_ecc"), std::nullopt);
  EXPECT_NE(Holds(watch, SeenAt(0), {{.double_bit_errors = 1}}, "double_bit_ecc"), std::nullopt);
}

TEST(Rules, SlowdownHasToLastMinutes) {
  RuleEvaluator watch;
  for (int minute = 0; minute < 5; ++minute)
    EXPECT_EQ(Holds(watch, SeenAt(minute * 60), {{.hardware_slowdown = true}}, "hardware_slowdown"),
              std::nullopt);
  EXPECT_EQ(Holds(watch, SeenAt(300), {{.hardware_slowdown = true}}, "hardware_slowdown"),
            "slowed by temperature or power in 6 of the last 10 minutes");
}

TEST(Rules, LinkErrorsAreCountedBySecond) {
  RuleEvaluator watch;
  watch.Check(SeenAt(0), {{.nvlink_crc_errors = 0}});
  EXPECT_EQ(Holds(watch, SeenAt(5), {{.nvlink_crc_errors = 499}}, "nvlink_crc"), std::nullopt);
  EXPECT_EQ(Holds(watch, SeenAt(10), {{.nvlink_crc_errors = 1000}}, "nvlink_crc"),
            "100 errors a second on its links");
}

TEST(Rules, AFactThatWasNotReadIsNotJudged) {
  RuleEvaluator watch;
  const auto results = watch.Check(SeenAt(0), {});
  EXPECT_EQ(results.size(), 3U);  // lost, silent, missing: these are always known
}

TEST(Rules, OfALostGpuNothingElseIsKnown) {
  RuleEvaluator watch;
  HealthRuleInput reading{{.double_bit_errors = 0}};
  reading.lost = "the GPU fell off the bus";
  const auto results = watch.Check(SeenAt(0), reading);
  EXPECT_EQ(results.at("lost"), "the GPU fell off the bus");
  EXPECT_FALSE(results.contains("double_bit_ecc"));
}

}  // namespace
}  // namespace gpuman::health
