#include "daemon/queue/unfit_gpu.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

TEST(UnfitGpu, IsToldWithWhatIsWrongAndWhyTheJobUsesIt) {
  EXPECT_EQ(NoteOn({"0", "ada", {}}, GpuSelectionReason::kNamed),
            "GPU 0 is drained (by ada); the job uses it all the same, as it was named");
  EXPECT_EQ(NoteOn({"0:1", {}, "Xid 79"}, GpuSelectionReason::kNoneNamed),
            "GPU 0:1 is unhealthy (Xid 79); the job may use it all the same, as it names no GPU: --gpu names "
            "those that it may use");
  EXPECT_EQ(
      NoteOn({"2", "", "Xid 79"}, GpuSelectionReason::kOnlyOneWithMps),
      "GPU 2 is drained and unhealthy (Xid 79); the job uses it all the same, as MPS runs on no other GPU "
      "that is fit");
}

}  // namespace
}  // namespace gpuman::daemon
