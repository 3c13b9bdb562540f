#include "ledger/lock_flood.h"

#include <gtest/gtest.h>

namespace gpuman::ledger {
namespace {

using std::chrono::microseconds;

bool IsFlood(LockFloodDetector& detector, LockCost cost, unsigned looks) {
  bool flood = false;
  for (unsigned i = 0; i < looks; ++i) flood = detector.Observe(cost);
  return flood;
}

TEST(LockFloodDetector, ManyExpensiveQuestionsInARowAreAFlood) {
  LockFloodDetector detector;
  const LockCost cost{microseconds(300), 100};
  EXPECT_FALSE(IsFlood(detector, cost, LockFloodDetector::kInARow - 1));
  EXPECT_TRUE(detector.Observe(cost));
}

TEST(LockFloodDetector, OneCheapQuestionBeginsTheCountAnew) {
  LockFloodDetector detector;
  const LockCost high{microseconds(300), 100}, low{microseconds(1), 100};
  EXPECT_FALSE(IsFlood(detector, high, LockFloodDetector::kInARow - 1));
  EXPECT_FALSE(detector.Observe(low));
  EXPECT_FALSE(IsFlood(detector, high, LockFloodDetector::kInARow - 1));
}

TEST(LockFloodDetector, FullLedgerOfAnHonestJobIsNoFlood) {
  LockFloodDetector detector;
  EXPECT_FALSE(IsFlood(detector, {microseconds(15), 1000}, 100));
}

TEST(LockFloodDetector, LocksThatProcessesDoNotExplainAreAFloodThoughAQuestionIsShort) {
  LockFloodDetector detector;
  EXPECT_TRUE(IsFlood(detector, {microseconds(150), 1000}, LockFloodDetector::kInARow));  // some 10,000 locks
}

TEST(LockFloodDetector, FullLedgerOnASlowMachineIsNoFlood) {
  LockFloodDetector detector;
  EXPECT_FALSE(IsFlood(detector, {microseconds(60), 1000}, 100));
}

TEST(LockFloodDetector, JobOfFewProcessesCostsLittleUntilAQuestionTakesMilliseconds) {
  LockFloodDetector detector;
  EXPECT_FALSE(IsFlood(detector, {microseconds(300), 4}, 100));
  EXPECT_TRUE(IsFlood(detector, {microseconds(5'000), 1}, 100));
}

}  // namespace
}  // namespace gpuman::ledger
