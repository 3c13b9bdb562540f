#include "ledger/wire/rest.h"

#include <gtest/gtest.h>

namespace gpuman::ledger::wire {
namespace {

TEST(CallGrant, IsReadFromItsWordAsItWasWritten) {
  const CallGrant grant{15, 1023, 7, true, false};
  EXPECT_EQ(CallGrantOf(PackCallGrant(grant, 4095)), grant);
  EXPECT_EQ(GrantNumberOf(PackCallGrant(grant, 4095)), 4095u);
  const CallGrant behind{CallGrant::kAnyGpu, 1, 0, false, true};
  EXPECT_EQ(CallGrantOf(PackCallGrant(behind, 1)), behind);
  EXPECT_EQ(PackCallGrant({0, 0, 0, false, false}, 0), 0u);
}

TEST(CallGrant, TakesTheLargestValueWhereTheWordHoldsNoLarger) {
  const CallGrant large = CallGrantOf(PackCallGrant({16, 5000, 9, false, false}, 1));
  EXPECT_EQ(large, (CallGrant{CallGrant::kAnyGpu, 1023, 7, false, false}));
}

TEST(CallGrant, NumbersBeginAnewAtOneSinceZeroIsNone) {
  EXPECT_EQ(GrantNumberAfter(0), 1u);
  EXPECT_EQ(GrantNumberAfter(1), 2u);
  EXPECT_EQ(GrantNumberAfter(4094), 4095u);
  EXPECT_EQ(GrantNumberAfter(4095), 1u);
}

TEST(CallGrantReport, IsReadFromItsWordAsItWasWritten) {
  const CallGrantReport read =
      CallGrantReportOf(PackCallGrantReport({4095, CallGrantEndReason::kRefused, 1023}));
  EXPECT_EQ(read.number, 4095u);
  EXPECT_EQ(read.ended, CallGrantEndReason::kRefused);
  EXPECT_EQ(read.calls, 1023u);
  EXPECT_EQ(CallGrantReportOf(0).number, 0u);
  EXPECT_EQ(CallGrantReportOf(0).ended, CallGrantEndReason::kNotYet);
  EXPECT_EQ(CallGrantReportOf(0xffffffff).ended, CallGrantEndReason::kRefused)
      << "a program has written that";
}

}  // namespace
}  // namespace gpuman::ledger::wire
