// Tests the way off the GPU, event by event.
#include "suspend/test_state_machine.h"

namespace gpuman::suspend {
namespace {

TEST(SuspendOut, TheShimEvictsAndThenTheDriverTakesTheContext) {
  Story s;
  s.Process(11, GiB(10), MiB(9500));
  EXPECT_THAT(s.Observe(), IsEmpty());
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "can?", "evict 11"));
  EXPECT_THAT(s.Can(true), IsEmpty());
  EXPECT_THAT(s.Shim(11, EvictionProgress::kEvicting), IsEmpty());
  EXPECT_THAT(s.Evicted(11), ElementsAre("checkpoint 11"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended held_by_user", "! job_suspended"));
  EXPECT_EQ(s.Detail(), "10GiB are in host memory (9.3GiB by the shim, 740MiB by the driver's checkpoint)");
  EXPECT_EQ(s.machine.Deadline(), std::nullopt) << "it sleeps";
}

TEST(SuspendOut, WithoutAShimTheCheckpointAloneDoes) {
  Story s;
  s.Process(11, GiB(10));
  s.Observe();
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "can?"));
  EXPECT_THAT(s.Can(true), ElementsAre("checkpoint 11"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended held_by_user", "! job_suspended"));
  EXPECT_EQ(s.Detail(), "10GiB are in host memory");
}

TEST(SuspendOut, LittleMemoryIsNotWorthAnEviction) {
  Story s;
  s.Process(11, MiB(600), MiB(64));
  s.Observe();
  s.Can(true);
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "checkpoint 11"));
}

TEST(SuspendOut, AllShimsEvictAtOnceThenTheDriverTakesTheYoungestFirst) {
  Story s;
  s.Process(11, GiB(1));
  s.Process(13, GiB(1), MiB(500));
  s.Process(12, GiB(1), MiB(500));
  s.Observe();
  s.Can(true);
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "evict 12", "evict 13"));
  EXPECT_THAT(s.Evicted(13), IsEmpty()) << "12 is still at it";
  EXPECT_THAT(s.Evicted(12), ElementsAre("checkpoint 13"));
  EXPECT_THAT(s.Checkpointed(13), ElementsAre("checkpoint 12"));
  EXPECT_THAT(s.Checkpointed(12), ElementsAre("checkpoint 11"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended held_by_user", "! job_suspended"));
}

TEST(SuspendOut, AJobWithNothingOnAGpuIsSuspendedAtOnce) {
  Story s;
  s.Process(11, {});
  s.Observe();
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "can?", "= suspended held_by_user",
                                       "! job_suspended"));
  EXPECT_EQ(s.Detail(), "nothing of it was on a GPU");
}

TEST(SuspendOut, AProcessWithoutCudaIsNoFailureAndStays) {
  Story s;
  s.Process(11, GiB(1));
  s.Process(12, MiB(30));
  s.Observe();
  s.Can(true);
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "checkpoint 12"));
  EXPECT_THAT(s.Says(12, MoverOutcome::kNoCuda, DriverState::kRunning), ElementsAre("checkpoint 11"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended held_by_user", "! job_suspended"));
  EXPECT_THAT(s.Detail(), HasSubstr("30MiB stay on GPU a"));
}

TEST(SuspendOut, AProcessThatAppearsOnTheWayIsTakenToo) {
  Story s;
  s.Process(11, GiB(1));
  s.Observe();
  s.Can(true);
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "checkpoint 11"));
  s.Process(12, GiB(2), GiB(1));
  EXPECT_THAT(s.Observe(), ElementsAre("evict 12"));
  EXPECT_THAT(s.Checkpointed(11), IsEmpty());
  EXPECT_THAT(s.Evicted(12), ElementsAre("checkpoint 12"));
  EXPECT_THAT(s.Checkpointed(12), ElementsAre("= suspended held_by_user", "! job_suspended"));
}

TEST(SuspendOut, AProcessThatEndsHoldsNothingUp) {
  Story s;
  s.Process(11, GiB(1), MiB(500));
  s.Process(12, GiB(1), MiB(500));
  s.Process(13, GiB(1));
  s.Observe();
  s.Can(true);
  s.Suspend();
  EXPECT_THAT(s.Dies(12), IsEmpty());
  EXPECT_THAT(s.Evicted(11), ElementsAre("checkpoint 13"));
  EXPECT_THAT(s.Dies(13), IsEmpty()) << "the driver is still asked";
  EXPECT_THAT(s.Feed(event::DriverAnswered{Story::IdOf(13), {.outcome = MoverOutcome::kGone}}),
              ElementsAre("checkpoint 11"));
  EXPECT_THAT(s.Feed(event::DriverAnswered{Story::IdOf(11), {.outcome = MoverOutcome::kGone}}),
              ElementsAre("= suspended held_by_user", "! job_suspended"));
}

TEST(SuspendOut, AJobThatEndsIsLetGo) {
  Story s;
  s.Process(11, GiB(1));
  s.Observe();
  s.Can(true);
  s.Suspend();
  EXPECT_THAT(s.Feed(event::Ended{}), IsEmpty());
  EXPECT_EQ(s.machine.phase(), SuspensionPhase::kEnded);
  EXPECT_THAT(s.Checkpointed(11), IsEmpty());
  EXPECT_THAT(s.Suspend(), IsEmpty());
  EXPECT_THAT(s.Observe(), IsEmpty());
}

// --- A way out that fails is undone.

TEST(SuspendOutFailure, WorkThatDoesNotComeToRestLetsTheJobRunOn) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Process(12, GiB(1));
  s.Observe();
  s.Can(true);
  s.Suspend();
  EXPECT_THAT(s.Evicted(11), ElementsAre("checkpoint 12"));
  EXPECT_THAT(s.Checkpointed(12), ElementsAre("checkpoint 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kTimeout, DriverState::kRunning),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "restore 12"));
  EXPECT_THAT(s.Restored(12), ElementsAre("return 11"));
  EXPECT_THAT(s.Shim(11, EvictionProgress::kRestoring), IsEmpty());
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running suspend_failed"));
  EXPECT_EQ(s.Detail(), "the GPU work of process 11 did not come to rest within 10s");
}

TEST(SuspendOutFailure, AnEvictionThatFailsIsNotCheckpointedInstead) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Process(12, GiB(10), GiB(9));
  s.Observe();
  s.Can(true);
  s.Suspend();
  EXPECT_THAT(s.Evicted(12), IsEmpty());
  EXPECT_THAT(s.Shim(11, EvictionProgress::kFailed, "9GiB of host memory are not to be had"),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "return 11", "return 12"));
  EXPECT_THAT(s.Shim(11, EvictionProgress::kOnGpu), IsEmpty());
  EXPECT_THAT(s.MemoryRestored(12), ElementsAre("= running suspend_failed"));
  EXPECT_THAT(s.Detail(), HasSubstr("9GiB of host memory are not to be had"));
}

TEST(SuspendOutFailure, AShimThatDoesNotAnswerIsLeftToTheDriver) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Observe();
  s.Can(true);
  s.Suspend();
  EXPECT_THAT(s.Wait(), ElementsAre("return 11", "checkpoint 11")) << "withdrawn first";
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended held_by_user", "! job_suspended"));
}

TEST(SuspendOutFailure, AShimThatBeginsAfterAllIsWaitedFor) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Process(12, GiB(1));
  s.Observe();
  s.Can(true);
  s.Suspend();
  EXPECT_THAT(s.Wait(), ElementsAre("return 11", "checkpoint 12"));
  s.At(11).eviction = EvictionProgress::kEvicting;
  EXPECT_THAT(s.Observe(), IsEmpty());
  EXPECT_THAT(s.Checkpointed(12), IsEmpty()) << "11 is at work";
  EXPECT_THAT(s.Shim(11, EvictionProgress::kRestoring), IsEmpty());
  EXPECT_THAT(s.Shim(11, EvictionProgress::kOnGpu), ElementsAre("checkpoint 11"));
}

TEST(SuspendOutFailure, AnEvictionWithoutEndIsGivenUp) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Observe();
  s.Can(true);
  s.Suspend();
  EXPECT_THAT(s.Shim(11, EvictionProgress::kEvicting), IsEmpty());
  EXPECT_THAT(s.Wait(), ElementsAre("= undoing suspend_failed", "! suspend_failed", "return 11"));
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running suspend_failed"));
}

TEST(SuspendOutFailure, AMoverThatDiesIsAskedAgainWhereTheProcessIs) {
  Story s;
  s.Process(11, GiB(1));
  s.Observe();
  s.Can(true);
  s.Suspend();
  EXPECT_THAT(s.Says(11, MoverOutcome::kLost, DriverState::kUnknown),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "state? 11"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("restore 11")) << "it had got that far";
  EXPECT_THAT(s.Restored(11), ElementsAre("= running suspend_failed"));
}

TEST(SuspendOutFailure, AMoverThatCannotBeStartedChangesNothing) {
  Story s;
  s.Process(11, GiB(1));
  s.Observe();
  s.Suspend();
  EXPECT_THAT(
      s.Feed(event::DriverAnswered{{}, {.outcome = MoverOutcome::kFailed, .message = "no such file"}}),
      ElementsAre("= undoing suspend_failed", "! suspend_failed", "= running suspend_failed"));
  EXPECT_EQ(s.Detail(), "no such file");
}

TEST(SuspendOut, MemoryOfACallInFlightIsNeededForTheReturn) {
  Story s;
  s.Process(11, MiB(106), MiB(0));
  s.Observe();
  s.Suspend();
  EXPECT_THAT(s.Can(true), ElementsAre("checkpoint 11"));
  s.At(11).gpus["a"] = {MiB(106), MiB(128), {}, MiB(106)};
  s.Observe();
  EXPECT_EQ(s.machine.record().held.at(Story::IdOf(11)).at("a"), MiB(234));
  s.Checkpointed(11);
  s.Resume();
  EXPECT_THAT(s.Room(MiB(200)), ::testing::Not(::testing::Contains("restore 11")));
  EXPECT_THAT(s.Room(MiB(240)), ::testing::Contains("restore 11"));
}

TEST(SuspendOut, MemoryThatTheShimEvictedCountsOnce) {
  Story s;
  s.Process(11, GiB(2), GiB(1));
  s.Observe();
  s.Suspend();
  s.Evicted(11);
  EXPECT_THAT(s.Can(true), ElementsAre("checkpoint 11"));
  s.At(11).gpus["a"] = {GiB(2), {}, GiB(1), {}};  // an older sample shows it
  s.Observe();
  s.Checkpointed(11);
  EXPECT_EQ(s.machine.record().held.at(Story::IdOf(11)).at("a"), GiB(2));
}

TEST(SuspendOutFailure, ResumeOnTheWayOutTurnsBack) {
  Story s;
  s.Process(11, GiB(1));
  s.Observe();
  s.Can(true);
  s.Suspend();
  EXPECT_THAT(s.Resume(), ElementsAre("= undoing resuming")) << "the driver's answer comes first";
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("restore 11"));
  EXPECT_THAT(s.Restored(11), ElementsAre("= running"));
}

TEST(SuspendOutFailure, WithoutRoomForTheWayBackItStaysOutAndWaits) {
  Story s;
  s.Process(11, GiB(1));
  s.Process(12, GiB(1));
  s.Observe();
  s.Can(true);
  s.Suspend();
  s.Checkpointed(12);
  EXPECT_THAT(s.Says(11, MoverOutcome::kTimeout, DriverState::kRunning),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "restore 12"));
  EXPECT_THAT(s.Says(12, MoverOutcome::kNoRoom, DriverState::kCheckpointed),
              ElementsAre("= retreating resume_failed", "! resume_failed", "checkpoint 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kTimeout, DriverState::kRunning),
              ElementsAre("! process_not_suspended", "= suspended resources"));
  EXPECT_EQ(s.Room(GiB(9)), Words{}) << "not again at once";
  s.now += std::chrono::minutes(1);
  EXPECT_THAT(s.Room(GiB(9)), ElementsAre("= resuming resuming", "restore 12"));
  EXPECT_THAT(s.Restored(12), ElementsAre("= running", "! job_resumed"));
}

// --- The driver cannot checkpoint.

TEST(SuspendWithoutCheckpoint, EvictionAloneCountsAndSaysWhatStays) {
  Story s;
  s.Process(11, GiB(10), MiB(9500));
  s.Process(12, MiB(500), MiB(30));
  s.Observe();
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "can?", "evict 11"));
  EXPECT_THAT(s.Can(false), ElementsAre("evict 12")) << "now every bit counts";
  EXPECT_THAT(s.Evicted(11), IsEmpty());
  EXPECT_THAT(s.Evicted(12), ElementsAre("= suspended held_by_user", "! job_suspended"));
  EXPECT_EQ(s.Detail(),
            "9.3GiB are in host memory; 1.2GiB stay on GPU a: this driver cannot checkpoint processes, so "
            "their contexts stay");
  EXPECT_THAT(s.Observe(), IsEmpty()) << "the contexts are no newcomers";
  EXPECT_THAT(s.Resume(), ElementsAre("= suspended resources"));
  EXPECT_EQ(s.machine.Needs(s.now), (BytesByGpu{{"a", MiB(9530)}})) << "what stayed needs no room";
  EXPECT_THAT(s.Room(GiB(10)), ElementsAre("= resuming resuming", "return 11", "return 12"));
  EXPECT_THAT(s.MemoryRestored(11), IsEmpty());
  EXPECT_THAT(s.MemoryRestored(12), ElementsAre("= running", "! job_resumed"));
}

TEST(SuspendOut, ManagedMemoryIsRefusedBeforeAnythingIsTouched) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Observe();
  EXPECT_TRUE(s.machine.CanSuspend());
  s.At(11).managed = GiB(1);
  s.Observe();
  const auto can = s.machine.CanSuspend();
  ASSERT_FALSE(can);
  EXPECT_EQ(can.error().code, base::ErrorCode::kNotSupported);
  EXPECT_THAT(can.error().message, HasSubstr("1GiB of managed memory"));
  EXPECT_THAT(s.Suspend(), ElementsAre(HasSubstr("= running"), "! suspend_refused"));
}

TEST(SuspendWithoutCheckpoint, WithoutAShimItIsRefused) {
  Story s;
  s.Process(11, GiB(10));
  s.Observe();
  s.Can(false);
  const auto can = s.machine.CanSuspend();
  ASSERT_FALSE(can);
  EXPECT_EQ(can.error().code, base::ErrorCode::kNotSupported);
  EXPECT_THAT(can.error().message, HasSubstr("old driver"));
  EXPECT_THAT(s.Suspend(), ElementsAre("= running suspend_unsupported", "! suspend_refused"));
}

TEST(SuspendWithoutCheckpoint, FoundOutOnTheWayItIsUndone) {
  Story s;
  s.Process(11, GiB(10));
  s.Observe();
  EXPECT_TRUE(s.machine.CanSuspend());
  s.Suspend();
  EXPECT_THAT(s.Can(false), ElementsAre("= undoing suspend_unsupported", "! suspend_unsupported",
                                        "= running suspend_unsupported"));
}

TEST(SuspendWithoutCheckpoint, AShimThatDoesNotAnswerIsAFailure) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Observe();
  s.Can(false);
  s.Suspend();
  EXPECT_THAT(s.Wait(), ElementsAre("= undoing suspend_failed", "! suspend_failed", "return 11"));
  EXPECT_THAT(s.Wait(), ElementsAre("= running suspend_failed"));
}

}  // namespace
}  // namespace gpuman::suspend
