// Real processes leave the (simulated) device and come back, with the real mover.
#include "fixture.h"

namespace gpuman::suspend {
namespace {

constexpr unsigned kMebibytes = 96;

class CheckpointerTest : public CheckpointerFixture {
 protected:
  // The memory that NVML shows of the process on a GPU; nullopt: the process is not in NVML's list.
  std::optional<base::Bytes> MemoryOf(base::ProcessId id, unsigned gpu = 0) {
    const auto processes = nvml->ComputeProcesses(Device(gpu));
    for (const auto& process : processes.value())
      if (process.pid == id.pid) return process.memory.value_or(base::Bytes{});
    return std::nullopt;
  }
};

TEST_F(CheckpointerTest, AProcessLeavesTheDeviceAndComesBackWithItsData) {
  HeldProcess held(0, kMebibytes);
  const auto before = MemoryOf(held.id());
  ASSERT_TRUE(before);
  EXPECT_GE(*before, base::MiB(kMebibytes));
  MoverAnswer answer = Ask(Verb::kCheckpoint, held.id());
  EXPECT_EQ(answer.outcome, MoverOutcome::kDone) << answer.message;
  EXPECT_EQ(answer.state, DriverState::kCheckpointed);
  EXPECT_EQ(MemoryOf(held.id()), std::nullopt) << "gone from NVML's list";
  held.Tell("check");  // waits until the memory is back
  answer = Ask(Verb::kRestore, held.id());
  EXPECT_EQ(answer.outcome, MoverOutcome::kDone) << answer.message;
  EXPECT_EQ(answer.state, DriverState::kRunning);
  EXPECT_EQ(held.Heard(), "whole");
  EXPECT_EQ(MemoryOf(held.id()), before);
}

TEST_F(CheckpointerTest, ARepeatedStepSucceeds) {
  HeldProcess held(0, 8);
  EXPECT_EQ(Ask(Verb::kRestore, held.id()).outcome, MoverOutcome::kDone);
  EXPECT_EQ(Ask(Verb::kUnlock, held.id()).outcome, MoverOutcome::kDone);
  EXPECT_EQ(Ask(Verb::kCheckpoint, held.id()).outcome, MoverOutcome::kDone);
  EXPECT_EQ(Ask(Verb::kCheckpoint, held.id()).outcome, MoverOutcome::kDone);
  EXPECT_EQ(Ask(Verb::kState, held.id()).state, DriverState::kCheckpointed);
  EXPECT_EQ(Ask(Verb::kUnlock, held.id()).outcome, MoverOutcome::kFailed);
}

TEST_F(CheckpointerTest, GpuWorkThatDoesNotEndLetsTheProcessRunOn) {
  HeldProcess held(0, 8);
  ASSERT_EQ(held.Ask("spin 600000"), "spinning");
  const MoverAnswer answer = Ask(Verb::kCheckpoint, held.id(), {}, base::Millis(20));
  EXPECT_EQ(answer.outcome, MoverOutcome::kTimeout);
  EXPECT_EQ(answer.state, DriverState::kRunning);
}

TEST_F(CheckpointerTest, AfterARefusedCheckpointTheProcessRunsOn) {
  HeldProcess held(0, 8);
  ASSERT_EQ(held.Ask("managed"), "managed");
  const MoverAnswer answer = Ask(Verb::kCheckpoint, held.id());
  EXPECT_EQ(answer.outcome, MoverOutcome::kRefused) << answer.message;
  EXPECT_EQ(answer.state, DriverState::kRunning);
  EXPECT_EQ(held.Ask("check"), "whole");
}

TEST_F(CheckpointerTest, AProcessWithoutCudaIsAKindOfItsOwn) {
  HeldProcess held(-1, 0);
  for (const Verb verb : {Verb::kState, Verb::kCheckpoint, Verb::kRestore})
    EXPECT_EQ(Ask(verb, held.id()).outcome, MoverOutcome::kNoCuda);
}

TEST_F(CheckpointerTest, AProcessThatEndedIsGoneAndItsPidIsNobodyElses) {
  HeldProcess held(0, 8);
  base::ProcessId other = held.id();
  other.start_time += 1;
  EXPECT_EQ(Ask(Verb::kCheckpoint, other).outcome, MoverOutcome::kGone);
  EXPECT_EQ(Ask(Verb::kState, held.id()).state, DriverState::kRunning);
}

TEST_F(CheckpointerTest, ATargetKilledInBetweenIsGone) {
  HeldProcess held(0, 8);
  const auto id = held.id();
  EXPECT_EQ(Ask(Verb::kCheckpoint, id).outcome, MoverOutcome::kDone);
  held.Kill();
  EXPECT_EQ(Ask(Verb::kRestore, id).outcome, MoverOutcome::kGone);
}

TEST_F(CheckpointerTest, ATargetKilledWhileItIsWaitedForIsGone) {
  HeldProcess held(0, 8);
  ASSERT_EQ(held.Ask("spin 600000"), "spinning");
  const auto asked =
      Post({.verb = Verb::kCheckpoint, .process = held.id(), .lock_timeout = base::Millis(600'000)});
  loop.restart();
  loop.poll();
  held.Kill();
  EXPECT_EQ(Wait(asked).outcome, MoverOutcome::kGone);
}

TEST_F(CheckpointerTest, RequestsWaitForOneAnother) {
  HeldProcess one(0, 8), other(1, 8);
  const auto first =
      Post({.verb = Verb::kCheckpoint, .process = one.id(), .lock_timeout = base::Millis(20'000)});
  const auto second =
      Post({.verb = Verb::kCheckpoint, .process = other.id(), .lock_timeout = base::Millis(20'000)});
  EXPECT_EQ(Wait(second).outcome, MoverOutcome::kDone);
  EXPECT_TRUE(first->answer) << "in the order they came";
}

TEST_F(CheckpointerTest, AProcessComesBackOnAnotherGpu) {
  HeldProcess held(0, kMebibytes);
  const auto before = MemoryOf(held.id(), 0);
  ASSERT_EQ(Ask(Verb::kCheckpoint, held.id()).outcome, MoverOutcome::kDone);
  const std::string a = Uuid(0), b = Uuid(1);
  MoverAnswer answer = Ask(Verb::kRestore, held.id(), {{a, b}});
  EXPECT_EQ(answer.outcome, MoverOutcome::kFailed) << "every GPU has to be named";
  EXPECT_EQ(answer.state, DriverState::kCheckpointed);
  answer = Ask(Verb::kRestore, held.id(), {{a, b}, {b, "GPU-nonsense"}});
  EXPECT_EQ(answer.outcome, MoverOutcome::kFailed);
  EXPECT_THAT(answer.message, ::testing::HasSubstr("GPU-nonsense"));
  answer = Ask(Verb::kRestore, held.id(), {{a, b}, {b, a}});
  EXPECT_EQ(answer.outcome, MoverOutcome::kDone) << answer.message;
  EXPECT_EQ(MemoryOf(held.id(), 0), std::nullopt);
  EXPECT_EQ(MemoryOf(held.id(), 1), before);
  EXPECT_EQ(held.Ask("check"), "whole");
  // And back, with the same swap.
  ASSERT_EQ(Ask(Verb::kCheckpoint, held.id()).outcome, MoverOutcome::kDone);
  ASSERT_EQ(Ask(Verb::kRestore, held.id(), {{a, b}, {b, a}}).outcome, MoverOutcome::kDone);
  EXPECT_EQ(MemoryOf(held.id(), 0), before);
  EXPECT_EQ(MemoryOf(held.id(), 1), std::nullopt);
  EXPECT_EQ(held.Ask("check"), "whole");
}

class OldDriver : public CheckpointerFixture {};

TEST_F(OldDriver, CannotCheckpointAndSaysSo) {
  const auto cuda = driver::CudaDriver::Load();
  ASSERT_TRUE(cuda);
  if (cuda->CanCheckpoint()) GTEST_SKIP() << "this driver is new enough";
  const MoverAnswer answer = Ask(Verb::kCan);
  EXPECT_EQ(answer.outcome, MoverOutcome::kUnsupported);
  EXPECT_THAT(answer.message, ::testing::HasSubstr("570"));
  EXPECT_EQ(Ask(Verb::kState, base::SelfId()).outcome, MoverOutcome::kUnsupported);
}

}  // namespace
}  // namespace gpuman::suspend
