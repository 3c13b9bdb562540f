#include "health/monitor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "health/xid.h"

namespace gpuman::health {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

constexpr int kMinute = 60;

Timestamp At(int seconds) {
  return {base::MonoTime(std::chrono::seconds(seconds)),
          base::WallTime(std::chrono::seconds(1'795'000'000 + seconds))};
}

Words WordsOf(const Notices& notices) {
  Words words;
  for (const auto& notice : notices) {
    const char* what = notice.change == FaultChange::kRaised     ? "raised"
                       : notice.change == FaultChange::kCleared  ? "cleared"
                       : notice.change == FaultChange::kReported ? "told"
                                                                 : "acknowledged";
    words.push_back(fmt::format("{} {}", what, notice.fault.code));
  }
  return words;
}

Words Feed(Monitor& monitor, const HealthRuleInput& reading, int at) {
  return WordsOf(monitor.On(reading, At(at)));
}
Words Strike(Monitor& monitor, unsigned xid, int at, std::optional<pid_t> pid = {}) {
  return WordsOf(monitor.On(XidOccurrence{xid, pid, "", At(at).wall}, At(at)));
}

// For one rule: a reading, by time, for which its condition holds, and one for which it does not hold.
struct Example {
  std::function<HealthRuleInput(int)> bad, good;
};

HealthRuleInput Lost(const char* why) {
  HealthRuleInput reading;
  reading.lost = why;
  return reading;
}
HealthRuleInput Silent() {
  HealthRuleInput reading;
  reading.silent = "a driver call has not come back for 2s";
  return reading;
}
HealthRuleInput Missing() {
  HealthRuleInput reading;
  reading.missing = true;
  return reading;
}

HealthRuleInput Fine() {
  return {{.recovery = Recovery::kNone,
           .double_bit_errors = 0,
           .pcie_replays = 0,
           .nvlink_crc_errors = 0,
           .remap_failed = false,
           .remap_pending = false,
           .uncorrectable_remaps = 0,
           .retirement_pending = false,
           .retired_pages = 0,
           .sram_threshold_exceeded = false,
           .pcie_generation = 4,
           .pcie_lanes = 16,
           .nvlinks_down = 0,
           .hardware_slowdown = false}};
}

template <typename Value>
Example Of(std::optional<Value> gpu::HealthReading::*field, Value bad) {
  return {[=](int) {
            HealthRuleInput reading = Fine();
            reading.*field = bad;
            return reading;
          },
          [](int) { return Fine(); }};
}

Example Counter(std::optional<std::uint64_t> gpu::HealthReading::*field, std::uint64_t per_second) {
  return {[=](int at) {
            HealthRuleInput reading = Fine();
            reading.*field = per_second * static_cast<std::uint64_t>(at);
            return reading;
          },
          [=](int) {
            HealthRuleInput reading = Fine();
            reading.*field = 1'000'000'000;
            return reading;
          }};
}

const std::map<std::string_view, Example>& Examples() {
  static const std::map<std::string_view, Example> examples = {
      {"lost", {[](int) { return Lost("gone"); }, [](int) { return Fine(); }}},
      {"silent", {[](int) { return Silent(); }, [](int) { return Fine(); }}},
      {"missing", {[](int) { return Missing(); }, [](int) { return Fine(); }}},
      {"recovery_reset", Of(&HealthRuleInput::recovery, Recovery::kReset)},
      {"recovery_reboot", Of(&HealthRuleInput::recovery, Recovery::kReboot)},
      {"recovery_drain_peers", Of(&HealthRuleInput::recovery, Recovery::kDrainPeers)},
      {"recovery_drain_and_reset", Of(&HealthRuleInput::recovery, Recovery::kDrainAndReset)},
      {"double_bit_ecc", Of(&HealthRuleInput::double_bit_errors, std::uint64_t{2})},
      {"row_remap_failed", Of(&HealthRuleInput::remap_failed, true)},
      {"sram_threshold", Of(&HealthRuleInput::sram_threshold_exceeded, true)},
      {"retired_pages", Of(&HealthRuleInput::retired_pages, std::uint64_t{64})},
      {"row_remap_pending", Of(&HealthRuleInput::remap_pending, true)},
      {"retirement_pending", Of(&HealthRuleInput::retirement_pending, true)},
      {"row_remaps", Of(&HealthRuleInput::uncorrectable_remaps, std::uint64_t{600})},
      {"pcie_replays", Counter(&HealthRuleInput::pcie_replays, 2)},
      {"hardware_slowdown", Of(&HealthRuleInput::hardware_slowdown, true)},
      {"nvlink_crc", Counter(&HealthRuleInput::nvlink_crc_errors, 150)},
      {"nvlink_down", Of(&HealthRuleInput::nvlinks_down, 1U)},
  };
  return examples;
}

class EachRule : public ::testing::TestWithParam<std::string_view> {
 protected:
  const Rule& rule_ = *RuleOf(GetParam());
  const Example& example_ = Examples().at(GetParam());
  Monitor monitor_;
  int at_ = 0;

  // One step is a second. Runs until the fault is raised and returns it.
  HealthFault Raise() {
    for (; at_ < 20 * kMinute; ++at_)
      for (const auto& notice : monitor_.On(example_.bad(at_), At(at_)))
        if (notice.change == FaultChange::kRaised && notice.fault.code == rule_.code) return notice.fault;
    ADD_FAILURE() << rule_.code << " was never raised";
    return {};
  }
  bool IsListed() const {
    const auto faults = monitor_.faults();
    return std::any_of(faults.begin(), faults.end(),
                       [&](const auto& fault) { return fault.code == rule_.code; });
  }
  // Returns after how many seconds of good readings the fault was over; -1: never.
  int Clear() {
    const int begin = at_;
    for (; at_ < begin + 60 * kMinute; ++at_) {
      monitor_.On(example_.good(at_), At(at_));
      if (!IsListed()) return at_ - begin;
    }
    return -1;
  }
};

TEST_P(EachRule, IsRaisedWithItsStateAndAction) {
  Feed(monitor_, Fine(), at_++);
  const HealthFault fault = Raise();
  EXPECT_EQ(fault.state, rule_.state);
  EXPECT_EQ(fault.action, rule_.action);
  EXPECT_FALSE(fault.text.empty());
  EXPECT_EQ(fault.since, At(at_).wall);
  EXPECT_EQ(monitor_.verdict(), (HealthVerdict{rule_.state, rule_.action}));
}

TEST_P(EachRule, HoldsAndIsToldOnce) {
  Raise();
  for (int more = 1; more < 120; ++more)
    EXPECT_THAT(Feed(monitor_, example_.bad(at_ + more), at_ + more), IsEmpty());
  EXPECT_TRUE(IsListed());
}

TEST_P(EachRule, HoldsWhenItCannotBeRead) {
  Raise();
  if (rule_.code == "lost" || rule_.code == "silent" || rule_.code == "missing")
    GTEST_SKIP() << "that can always be said";
  for (int more = 1; more < 20 * kMinute; ++more)
    EXPECT_THAT(Feed(monitor_, HealthRuleInput{}, at_ + more), IsEmpty());
  EXPECT_TRUE(IsListed());
}

TEST_P(EachRule, IsOverAfterItsTime) {
  Raise();
  ++at_;
  const int seconds = Clear();
  EXPECT_GE(seconds, rule_.clear_after.count() / 1000);
  EXPECT_LT(seconds, 15 * kMinute + rule_.clear_after.count() / 1000);
  EXPECT_EQ(monitor_.verdict(), HealthVerdict{});
}

TEST_P(EachRule, OutlastsARestartOfTheDaemonAndIsNotToldAgain) {
  Raise();
  Monitor next;
  EXPECT_THAT(next.Restore(monitor_.faults(), false, At(at_)), IsEmpty());
  EXPECT_EQ(next.faults(), monitor_.faults());
  for (int more = 1; more < 30; ++more)
    EXPECT_THAT(Feed(next, example_.bad(at_ + more), at_ + more), IsEmpty());
  monitor_ = next;
  at_ += 30;
  EXPECT_NE(Clear(), -1);
}

INSTANTIATE_TEST_SUITE_P(Rules, EachRule, ::testing::ValuesIn([] {
                           std::vector<std::string_view> codes;
                           for (const Rule& rule : Rules()) codes.push_back(rule.code);
                           return codes;
                         }()),
                         [](const auto& one) { return std::string(one.param); });

class EachXid : public ::testing::TestWithParam<XidCatalogEntry> {
 protected:
  const XidCatalogEntry kind_ = GetParam();
  const std::string code_ = fmt::format("xid_{}", kind_.xid);
  const bool breaks_ = kind_.state != HealthState::kHealthy;
  Monitor monitor_;
};

TEST_P(EachXid, IsRaisedOrMerelyTold) {
  EXPECT_THAT(Strike(monitor_, kind_.xid, 0, 77), ElementsAre((breaks_ ? "raised " : "told ") + code_));
  EXPECT_EQ(monitor_.verdict(), (breaks_ ? HealthVerdict{kind_.state, kind_.action} : HealthVerdict{}));
}

TEST_P(EachXid, HoldsAndIsCounted) {
  Strike(monitor_, kind_.xid, 0);
  EXPECT_THAT(Strike(monitor_, kind_.xid, 1), IsEmpty());
  EXPECT_THAT(Feed(monitor_, HealthRuleInput{}, 3600), IsEmpty());
  if (!breaks_) {
    EXPECT_THAT(monitor_.faults(), IsEmpty());
    return;
  }
  ASSERT_EQ(monitor_.faults().size(), 1U);
  EXPECT_EQ(monitor_.faults()[0].count, 2U);
  EXPECT_EQ(monitor_.faults()[0].last, At(1).wall);
}

TEST_P(EachXid, IsOverWithAReset) {
  Strike(monitor_, kind_.xid, 0);
  const bool by_reset = breaks_ && kind_.action != RepairAction::kCheckPowerCable;
  EXPECT_EQ(WordsOf(monitor_.OnReset(At(1))), by_reset ? Words{"cleared " + code_} : Words{});
}

TEST_P(EachXid, OutlastsTheDaemonAndNotAReboot) {
  Strike(monitor_, kind_.xid, 0);
  Monitor same, rebooted;
  EXPECT_THAT(same.Restore(monitor_.faults(), false, At(9)), IsEmpty());
  EXPECT_EQ(same.verdict(), monitor_.verdict());
  EXPECT_EQ(WordsOf(rebooted.Restore(monitor_.faults(), true, At(9))),
            breaks_ ? Words{"cleared " + code_} : Words{});
  EXPECT_EQ(rebooted.verdict(), HealthVerdict{});
}

INSTANTIATE_TEST_SUITE_P(Xids, EachXid, ::testing::ValuesIn(XidClasses().begin(), XidClasses().end()),
                         [](const auto& one) { return std::to_string(one.param.xid); });

TEST(Health, EveryRuleHasAnExample) { EXPECT_EQ(Examples().size(), Rules().size()); }

TEST(Health, OfAGpuThatIsFineThereIsNothingToSay) {
  Monitor monitor;
  for (int at = 0; at < 20 * kMinute; ++at) EXPECT_THAT(Feed(monitor, Fine(), at), IsEmpty());
  EXPECT_EQ(monitor.verdict(), HealthVerdict{});
}

TEST(Health, TheWorstFaultDecidesAndTheDriversWordOutranksTheOthers) {
  Monitor monitor;
  HealthRuleInput reading = Fine();
  reading.remap_pending = true;
  Feed(monitor, reading, 0);
  EXPECT_EQ(monitor.verdict(), (HealthVerdict{HealthState::kDegraded, RepairAction::kResetWhenIdle}));
  reading.remap_failed = true;
  Feed(monitor, reading, 1);
  EXPECT_EQ(monitor.verdict(), (HealthVerdict{HealthState::kUnhealthy, RepairAction::kFieldDiagnostics}));
  reading.recovery = Recovery::kReset;
  Feed(monitor, reading, 2);
  EXPECT_EQ(monitor.verdict(), (HealthVerdict{HealthState::kUnhealthy, RepairAction::kReset}));
  EXPECT_EQ(monitor.faults().front().state, HealthState::kUnhealthy);
}

TEST(Health, AnXidIsOverWhenTheDriverAsksForNothing) {
  Monitor monitor;
  Strike(monitor, 119, 0);
  for (int at = 1; at <= 30; ++at) EXPECT_THAT(Feed(monitor, Fine(), at), IsEmpty()) << at;
  EXPECT_THAT(Feed(monitor, Fine(), 31), ElementsAre("cleared xid_119"));
}

TEST(Health, AnXidAgainBeginsTheDriversSilenceAnew) {
  Monitor monitor;
  Strike(monitor, 119, 0);
  for (int at = 1; at <= 20; ++at) Feed(monitor, Fine(), at);
  Strike(monitor, 119, 20);
  for (int at = 21; at < 50; ++at) EXPECT_THAT(Feed(monitor, Fine(), at), IsEmpty()) << at;
  EXPECT_THAT(Feed(monitor, Fine(), 50), ElementsAre("cleared xid_119"));
}

TEST(Health, ADriverThatCannotTellLeavesAnXidAsItIs) {
  Monitor monitor;
  HealthRuleInput old = Fine();
  old.recovery.reset();
  Strike(monitor, 119, 0);
  for (int at = 1; at < 20 * kMinute; ++at) EXPECT_THAT(Feed(monitor, old, at), IsEmpty());
  EXPECT_EQ(monitor.verdict().state, HealthState::kUnhealthy);
}

TEST(Health, AGpuThatFellOffTheBusStaysSoWhateverTheDriverSays) {
  Monitor monitor;
  Strike(monitor, 79, 0);
  for (int at = 1; at < 20 * kMinute; ++at) Feed(monitor, Fine(), at);
  EXPECT_EQ(monitor.verdict(), (HealthVerdict{HealthState::kUnhealthy, RepairAction::kPowerCycle}));
}

TEST(Health, OneThatComesBackAfterItWasLostWasReset) {
  Monitor monitor;
  Strike(monitor, 79, 0);
  Feed(monitor, Lost("the GPU fell off the bus"), 1);
  EXPECT_THAT(Feed(monitor, Fine(), 2), ElementsAre("cleared xid_79", "cleared lost"));
}

TEST(Health, OneThatWasSilentWasNotReset) {
  Monitor monitor;
  Strike(monitor, 79, 0);
  Feed(monitor, Silent(), 1);
  EXPECT_THAT(Feed(monitor, Fine(), 2), ElementsAre("cleared silent"));
  EXPECT_EQ(monitor.verdict().action, RepairAction::kPowerCycle);
}

TEST(Health, CountersThatBeginAnewTellOfAReset) {
  Monitor monitor;
  HealthRuleInput reading = Fine();
  reading.double_bit_errors = 3;
  reading.recovery.reset();
  Feed(monitor, reading, 0);
  Strike(monitor, 48, 1);
  reading.double_bit_errors = 0;
  EXPECT_THAT(Feed(monitor, reading, 2), ElementsAre("cleared xid_48"));
}

TEST(Health, AnAcknowledgedFaultIsListedAndCountsOnlyWhenItReturns) {
  Monitor monitor;
  Strike(monitor, 74, 0);
  Strike(monitor, 62, 0);
  EXPECT_THAT(WordsOf(monitor.Acknowledge("xid_62", "lab1", At(1))), ElementsAre("acknowledged xid_62"));
  EXPECT_EQ(monitor.verdict(), (HealthVerdict{HealthState::kDegraded, RepairAction::kInspectLink}));
  EXPECT_EQ(monitor.faults().size(), 2U);
  EXPECT_THAT(WordsOf(monitor.Acknowledge("", "lab1", At(2))), ElementsAre("acknowledged xid_74"));
  EXPECT_EQ(monitor.verdict(), HealthVerdict{});
  EXPECT_THAT(monitor.Acknowledge("xid_13", "lab1", At(3)), IsEmpty());
  EXPECT_THAT(Strike(monitor, 62, 4), ElementsAre("raised xid_62"));
  EXPECT_EQ(monitor.verdict().state, HealthState::kUnhealthy);
}

TEST(Health, AnAcknowledgedConditionCountsAgainWhenItWasOverInBetween) {
  Monitor monitor;
  HealthRuleInput reading = Fine();
  reading.remap_pending = true;
  Feed(monitor, reading, 0);
  monitor.Acknowledge("", "root", At(1));
  EXPECT_THAT(Feed(monitor, reading, 2), IsEmpty());
  Feed(monitor, Fine(), 3);
  EXPECT_THAT(Feed(monitor, Fine(), 20), ElementsAre("cleared row_remap_pending"));
  EXPECT_THAT(Feed(monitor, reading, 21), ElementsAre("raised row_remap_pending"));
  EXPECT_EQ(monitor.verdict().state, HealthState::kDegraded);
}

TEST(Health, ProgramsFaultsAreToldOnceAMinute) {
  Monitor monitor;
  EXPECT_THAT(Strike(monitor, 31, 0), ElementsAre("told xid_31"));
  for (int at = 1; at < 50; ++at) EXPECT_THAT(Strike(monitor, 31, at), IsEmpty());
  EXPECT_THAT(Strike(monitor, 13, 50), ElementsAre("told xid_13"));
  EXPECT_THAT(Strike(monitor, 31, 120), ElementsAre("told xid_31"));
}

TEST(Health, AnXidThatIsIgnoredBreaksNothing) {
  Monitor monitor(MonitorSettings{.ignored_xids = {62}});
  EXPECT_THAT(Strike(monitor, 62, 0), ElementsAre("told xid_62"));
  EXPECT_EQ(monitor.verdict(), HealthVerdict{});
}

TEST(Health, ARebootEndsWhatAResetEndsAndNotWhatIsWritten) {
  Monitor monitor, next;
  HealthRuleInput reading = Fine();
  reading.remap_pending = true;
  reading.remap_failed = true;
  Feed(monitor, reading, 0);
  EXPECT_THAT(WordsOf(next.Restore(monitor.faults(), true, At(9))), ElementsAre("cleared row_remap_pending"));
  EXPECT_EQ(next.verdict().action, RepairAction::kFieldDiagnostics);
}

TEST(Health, ARuleOfAnotherVersionIsForgotten) {
  Monitor next;
  next.Restore({{"no_such_rule", HealthState::kUnhealthy, RepairAction::kReset, "x", {}, {}, 1, false}},
               false, At(0));
  EXPECT_EQ(next.verdict(), HealthVerdict{});
}

}  // namespace
}  // namespace gpuman::health
