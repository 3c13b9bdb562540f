#include "health/xid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace gpuman::health {
namespace {

std::vector<unsigned> Those(HealthState state, RepairAction action) {
  std::vector<unsigned> numbers;
  for (const auto& kind : XidClasses())
    if (kind.state == state && kind.action == action) numbers.push_back(kind.xid);
  return numbers;
}

// NVIDIA's catalogue, grouped by the action.
TEST(Xids, EachXidHasStateAndActionOfTheCatalogue) {
  using ::testing::ElementsAre;
  EXPECT_THAT(Those(HealthState::kHealthy, RepairAction::kRestartProgram),
              ElementsAre(8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 80, 94));
  EXPECT_THAT(Those(HealthState::kHealthy, RepairAction::kNone),
              ElementsAre(37, 38, 43, 44, 45, 63, 66, 67, 92, 93, 121, 137, 154));
  EXPECT_THAT(Those(HealthState::kUnhealthy, RepairAction::kReset),
              ElementsAre(46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158));
  EXPECT_THAT(Those(HealthState::kDegraded, RepairAction::kInspectLink),
              ElementsAre(74, 144, 145, 146, 147, 148, 149, 150));
  EXPECT_THAT(Those(HealthState::kUnhealthy, RepairAction::kPowerCycle), ElementsAre(79));
  EXPECT_THAT(Those(HealthState::kUnhealthy, RepairAction::kCheckPowerCable), ElementsAre(54));
}

TEST(Xids, EachXidHasAName) {
  for (const auto& kind : XidClasses()) EXPECT_FALSE(kind.name.empty()) << kind.xid;
}

TEST(Xids, UnknownXidKeepsGpuHealthyAndNeedsNoAction) {
  for (const unsigned xid : {0U, 1U, 7U, 151U, 100'000U}) {
    EXPECT_EQ(ClassOf(xid).xid, xid);
    EXPECT_EQ(ClassOf(xid).state, HealthState::kHealthy);
    EXPECT_EQ(ClassOf(xid).action, RepairAction::kNone);
  }
}

TEST(Verdict, WordsReadBack) {
  std::set<std::string_view> words;
  for (int i = 0; i <= static_cast<int>(RepairAction::kFieldDiagnostics); ++i) {
    const auto action = static_cast<RepairAction>(i);
    EXPECT_EQ(base::ValueOf(WordsOf(RepairAction{}), ToString(action)), action);
    EXPECT_TRUE(words.insert(ToString(action)).second);
    EXPECT_EQ(AdviceOf(action).empty(), action == RepairAction::kNone);
  }
  for (const HealthState state : {HealthState::kHealthy, HealthState::kDegraded, HealthState::kUnhealthy})
    EXPECT_EQ(base::ValueOf(WordsOf(HealthState{}), ToString(state)), state);
}

}  // namespace
}  // namespace gpuman::health
