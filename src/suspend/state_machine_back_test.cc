// Tests the way back of a suspended job, event by event.
#include "suspend/test_state_machine.h"

namespace gpuman::suspend {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;

// Process 11 with a shim that evicted 9 GiB of its 10, and process 12 without one, which holds 1 GiB.
Story Suspended() {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Process(12, GiB(1));
  s.Observe();
  s.Can(true);
  s.Suspend();
  s.Evicted(11);
  s.Checkpointed(12);
  s.Checkpointed(11);
  EXPECT_EQ(s.machine.phase(), SuspensionPhase::kSuspended);
  return s;
}

TEST(SuspendBack, WaitsForRoomThenRestoresParentsFirstThenTheShimsReturn) {
  Story s = Suspended();
  EXPECT_EQ(s.machine.Needs(s.now), std::nullopt) << "nobody asked";
  EXPECT_THAT(s.Room(GiB(100)), IsEmpty());
  EXPECT_THAT(s.Resume(), ElementsAre("= suspended resources"));
  EXPECT_EQ(s.machine.Needs(s.now), (BytesByGpu{{"a", GiB(11)}}));
  EXPECT_THAT(s.Room(GiB(10)), ElementsAre("= suspended resources"));
  EXPECT_THAT(s.Detail(), HasSubstr("waits for 11GiB on GPU a, where 10GiB are free"));
  EXPECT_THAT(s.Room(GiB(9)), IsEmpty()) << "told of it a moment ago";
  EXPECT_THAT(s.Room(GiB(11)), ElementsAre("= resuming resuming", "restore 11"));
  EXPECT_THAT(s.Restored(11), ElementsAre("restore 12"));
  EXPECT_THAT(s.Restored(12), ElementsAre("return 11"));
  EXPECT_THAT(s.Shim(11, EvictionProgress::kRestoring), IsEmpty());
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running", "! job_resumed"));
  EXPECT_EQ(s.machine.Deadline(), std::nullopt);
  EXPECT_TRUE(s.machine.record().held.empty());
}

TEST(SuspendBack, AJobThatSharesResumesBeforeItsTurnRestoresTheRest) {
  Story s = Suspended();
  s.by_hand = true;
  s.machine.SetSettings({.restores_held = true});
  s.Resume();
  EXPECT_EQ(s.machine.Needs(s.now), (BytesByGpu{{"a", GiB(2)}})) << "what the driver gives back";
  EXPECT_THAT(s.Room(GiB(2)), ElementsAre("= resuming resuming", "restore 11"));
  EXPECT_THAT(s.Restored(11), ElementsAre("restore 12"));
  EXPECT_THAT(s.Restored(12), ElementsAre("return 11"));
  EXPECT_THAT(s.Shim(11, EvictionProgress::kOnGpu), ElementsAre("= running", "! job_resumed"))
      << "with 9 GiB away";
}

TEST(SuspendBack, AMoreImportantJobGoesFirst) {
  Story s = Suspended();
  s.Resume();
  EXPECT_THAT(s.Room(GiB(100), /*chosen=*/false), ElementsAre("= suspended resources"));
  EXPECT_THAT(s.Detail(), HasSubstr("more important"));
}

TEST(SuspendBack, ASecondSuspendCallsTheWaitingOff) {
  Story s = Suspended();
  s.Resume();
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspended held_by_user"));
  EXPECT_THAT(s.Room(GiB(100)), IsEmpty());
}

TEST(SuspendBack, CanBeSuspendedAgainAtOnce) {
  Story s = Suspended();
  s.Resume();
  s.Room(GiB(100));
  s.Restored(11);
  s.Restored(12);
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "evict 11"));
  EXPECT_THAT(s.Shim(11, EvictionProgress::kEvicted), ElementsAre("checkpoint 12"));
}

// A job of one process without a shim, back on its GPU, where no sample shows it yet.
Story BackUnseen() {
  Story s;
  s.Process(12, GiB(1));
  s.Observe();
  s.Can(true);
  s.Suspend();
  s.Checkpointed(12);
  s.Resume();
  s.Room(GiB(100));
  EXPECT_THAT(s.Restored(12), ElementsAre("= running", "! job_resumed"));
  const auto listed = std::exchange(s.processes, {});
  s.Observe();
  s.processes = listed;
  s.At(12).gpus.clear();
  s.Observe();
  return s;
}

TEST(SuspendBack, AProcessThatNoSampleShowsYetLeavesAgainOnceOneDoes) {
  Story s = BackUnseen();
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user"));
  s.now += base::Millis(20);
  s.At(12).gpus["a"].used = MiB(4);
  s.At(12).gpus["a"].sampled_at = s.now;
  EXPECT_THAT(s.Observe(), IsEmpty()) << "a new sample with an old list of processes";
  s.now += base::Millis(20);
  s.At(12).gpus["a"].used = GiB(2);
  s.At(12).gpus["a"].sampled_at = s.now;
  EXPECT_TRUE(s.machine.KnowsMoreThanSamples());
  EXPECT_THAT(s.Observe(), ElementsAre("checkpoint 12"));
  EXPECT_FALSE(s.machine.KnowsMoreThanSamples());
  EXPECT_EQ(s.machine.record().held.at(s.IdOf(12)), (BytesByGpu{{"a", GiB(2)}})) << "it took more meanwhile";
  EXPECT_THAT(s.Checkpointed(12), ElementsAre("= suspended held_by_user", "! job_suspended"));
}

TEST(SuspendBack, AProcessThatNoSampleShowsLeavesAgainWithWhatItHad) {
  Story s = BackUnseen();
  s.Suspend();
  EXPECT_THAT(s.Wait(), ElementsAre("checkpoint 12"));
  EXPECT_THAT(s.Checkpointed(12), ElementsAre("= suspended held_by_user", "! job_suspended"));
  EXPECT_THAT(s.Detail(), HasSubstr("1GiB are in host memory"));
}

TEST(SuspendBack, AProcessThatGaveUpItsMemorySinceIsNotLookedForWithoutEnd) {
  Story s = BackUnseen();
  s.now += SuspensionSettings{}.retry;
  s.Observe();
  EXPECT_THAT(s.Suspend(),
              ElementsAre("= suspending held_by_user", "= suspended held_by_user", "! job_suspended"));
}

TEST(SuspendBack, AProcessThatEndedMeanwhileIsNotMissed) {
  Story s = Suspended();
  s.Dies(11);
  s.Resume();
  EXPECT_EQ(s.machine.Needs(s.now), (BytesByGpu{{"a", GiB(1)}}));
  EXPECT_THAT(s.Room(GiB(1)), ElementsAre("= resuming resuming", "restore 12"));
  EXPECT_THAT(s.Restored(12), ElementsAre("= running", "! job_resumed"));
}

TEST(SuspendBack, AProcessThatBecameAnotherProgramHasNothingToRestore) {
  Story s = Suspended();
  s.Resume();
  s.Room(GiB(100));
  EXPECT_THAT(s.Says(11, MoverOutcome::kNoCuda, DriverState::kRunning), ElementsAre("restore 12"));
}

// --- A way back that fails is taken out again.

TEST(SuspendBackFailure, WithoutRoomItGoesOutAgainAndTriesLater) {
  Story s = Suspended();
  s.Resume();
  s.Room(GiB(11));
  s.Restored(11);
  EXPECT_THAT(s.Says(12, MoverOutcome::kNoRoom, DriverState::kCheckpointed),
              ElementsAre("= retreating resume_failed", "! resume_failed", "checkpoint 11"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended resources"));
  EXPECT_EQ(s.machine.Needs(s.now), std::nullopt) << "not at once";
  s.now += std::chrono::minutes(1);
  EXPECT_EQ(s.machine.Needs(s.now), (BytesByGpu{{"a", GiB(11)}}));
}

TEST(SuspendBackFailure, ARestoreThatTheDriverRefusesHasToBeAskedForAgain) {
  Story s = Suspended();
  s.Resume();
  s.Room(GiB(11));
  EXPECT_THAT(s.Says(11, MoverOutcome::kFailed, DriverState::kCheckpointed),
              ElementsAre("= retreating resume_failed", "! resume_failed", "= suspended resume_failed"));
  EXPECT_THAT(s.Detail(), HasSubstr("process 11: it said so; 11GiB are in host memory"));
  EXPECT_THAT(s.Room(GiB(100)), IsEmpty());
  EXPECT_THAT(s.Resume(), ElementsAre("= suspended resources"));
  EXPECT_THAT(s.Room(GiB(100)), ElementsAre("= resuming resuming", "restore 11"));
}

TEST(SuspendBackFailure, AShimWithoutRoomKeepsItsDataInHostMemory) {
  Story s = Suspended();
  s.Resume();
  s.Room(GiB(11));
  s.Restored(11);
  EXPECT_THAT(s.Restored(12), ElementsAre("return 11"));
  EXPECT_THAT(s.Shim(11, EvictionProgress::kFailed, "out of memory"),
              ElementsAre("= retreating resume_failed", "! resume_failed", "evict 11"));
  EXPECT_THAT(s.Shim(11, EvictionProgress::kEvicted), ElementsAre("checkpoint 12"));
  EXPECT_THAT(s.Checkpointed(12), ElementsAre("checkpoint 11"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended resources"));
}

TEST(SuspendBackFailure, AfterSomeTriesItHasToBeAskedForAgain) {
  Story s = Suspended();
  s.Resume();
  for (int i = 0; i < SuspensionSettings{}.retries; ++i) {
    s.Observe();
    s.now += std::chrono::minutes(1);
    ASSERT_THAT(s.Room(GiB(11)), ElementsAre("= resuming resuming", "restore 11"));
    ASSERT_THAT(s.Says(11, MoverOutcome::kNoRoom, DriverState::kCheckpointed),
                ElementsAre("= retreating resume_failed", "! resume_failed", "= suspended resources"));
  }
  s.now += std::chrono::minutes(1);
  s.Room(GiB(11));
  EXPECT_THAT(s.Says(11, MoverOutcome::kNoRoom, DriverState::kCheckpointed),
              ElementsAre("= retreating resume_failed", "! resume_failed", "= suspended resume_failed"));
}

TEST(SuspendBackFailure, ALostRestoreIsLookedAt) {
  Story s = Suspended();
  s.Resume();
  s.Room(GiB(11));
  EXPECT_THAT(s.Says(11, MoverOutcome::kLost, DriverState::kUnknown), ElementsAre("state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kDone, DriverState::kLocked), ElementsAre("restore 11"))
      << "which unlocks";
  EXPECT_THAT(s.Restored(11), ElementsAre("restore 12"));
}

TEST(SuspendBackFailure, AJobOfWhichNothingCouldBeTakenAgainDoesNotStandStill) {
  Story s;
  s.Process(11, GiB(1), MiB(900));
  s.Process(12, GiB(1), MiB(900));
  s.Observe();
  EXPECT_THAT(s.Suspend(), Contains("evict 12"));
  s.Can(false);
  EXPECT_THAT(s.Shim(11, EvictionProgress::kFailed, "no memory"), Contains("return 11"));
  s.Shim(11, EvictionProgress::kOnGpu);
  s.Shim(12, EvictionProgress::kRestoring);
  EXPECT_THAT(s.Wait(), IsSupersetOf({"= retreating resume_failed", "evict 11", "evict 12"}));
  // The gates of these shims were still closed, so the shims keep them closed.
  s.At(11).held = s.At(12).held = true;
  s.Shim(11, EvictionProgress::kFailed, "no memory");
  EXPECT_THAT(s.Shim(12, EvictionProgress::kFailed, "no memory"),
              ElementsAre("! process_not_suspended", "return 11", "return 12", "= running resume_failed"));
}

TEST(SuspendBackFailure, AJobThatTakesTurnsWaitsForItsTurnAfterwards) {
  SuspensionSettings settings;
  settings.restores_held = true;
  Story s(settings);
  s.Process(11, GiB(1), MiB(900));
  s.Process(12, GiB(1), MiB(900));
  s.Observe();
  s.Suspend();
  s.Can(false);
  s.Shim(11, EvictionProgress::kFailed, "no memory");
  s.Shim(11, EvictionProgress::kOnGpu);
  s.Shim(12, EvictionProgress::kRestoring);
  s.Wait();
  s.At(11).held = s.At(12).held = true;
  s.Shim(11, EvictionProgress::kFailed, "no memory");
  s.At(12).eviction = EvictionProgress::kFailed;
  s.At(12).answered = true;
  const Actions actions = s.machine.On(suspend::event::Observed{s.processes, s.gpus}, s.now);
  EXPECT_EQ(s.machine.phase(), SuspensionPhase::kRunning);
  int held = 0;
  for (const Action& action : actions)
    if (const auto* back = std::get_if<action::OrderRestore>(&action)) {
      EXPECT_TRUE(back->held) << back->process.pid;
      ++held;
    }
  EXPECT_EQ(held, 2);
}

TEST(SuspendBackFailure, AProcessThatTheDriverBrokeIsNamed) {
  Story s = Suspended();
  s.Resume();
  s.Room(GiB(11));
  EXPECT_THAT(s.Says(11, MoverOutcome::kFailed, DriverState::kBroken),
              ElementsAre("= retreating resume_failed", "! resume_failed", "! process_not_suspended",
                          "= suspended resume_failed"));
}

// --- New processes.

TEST(SuspendedNewcomer, IsToldOfAndTaken) {
  Story s = Suspended();
  s.Process(13, GiB(3), GiB(2));
  EXPECT_THAT(s.Observe(), ElementsAre("! suspended_process_taken", "evict 13"));
  EXPECT_THAT(s.Evicted(13), ElementsAre("checkpoint 13"));
  EXPECT_THAT(s.Checkpointed(13), IsEmpty());
  EXPECT_EQ(s.machine.phase(), SuspensionPhase::kSuspended);
  s.Resume();
  EXPECT_EQ(s.machine.Needs(s.now), (BytesByGpu{{"a", GiB(14)}}));
}

TEST(SuspendedNewcomer, ThatCannotBeTakenIsTriedAgainLater) {
  Story s = Suspended();
  s.Process(13, GiB(3));
  EXPECT_THAT(s.Observe(), ElementsAre("! suspended_process_taken", "checkpoint 13"));
  EXPECT_THAT(s.Says(13, MoverOutcome::kTimeout, DriverState::kRunning), IsEmpty()) << "told of once";
  EXPECT_THAT(s.Observe(), IsEmpty());
  EXPECT_THAT(s.Wait(), ElementsAre("checkpoint 13"));
}

TEST(SuspendedNewcomer, ThatWasCheckpointedOnceIsAskedAbout) {
  Story s = Suspended();
  s.now += std::chrono::minutes(1);
  s.At(12).gpus["a"].used = GiB(1);  // another program restored it, or it executed another program
  EXPECT_THAT(s.Observe(), ElementsAre("state? 12"));
  EXPECT_THAT(s.Says(12, MoverOutcome::kDone, DriverState::kRunning),
              ElementsAre("! suspended_process_taken", "checkpoint 12"));
}

// --- Moves to another GPU.

TEST(SuspendMove, GoesOutAndComesBackOnTheOtherGpu) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Observe();
  s.Can(true);
  EXPECT_THAT(s.Move("b"), ElementsAre("= suspending moving", "evict 11"));
  EXPECT_THAT(s.Evicted(11), ElementsAre("checkpoint 11"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended moving", "! job_suspended"));
  EXPECT_EQ(s.machine.Needs(s.now), (BytesByGpu{{"b", GiB(10)}}));
  EXPECT_THAT(s.Room(GiB(10), true, "b"), ElementsAre("= resuming moving", "restore 11 a>b b>a c>c"));
  EXPECT_EQ(s.machine.record().held.begin()->second.begin()->first, "a");
  EXPECT_THAT(s.Restored(11), ElementsAre("moved b", "return 11"));
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running", "! job_moved"));
  EXPECT_FALSE(s.machine.record().target);
}

// The driver has restored the process, and the mover died before it answered.
TEST(SuspendMove, AnUnansweredRestoreCountsOnTheNewGpu) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Observe();
  s.Can(true);
  s.Move("b");
  s.Evicted(11);
  s.Checkpointed(11);
  s.Room(GiB(10), true, "b");
  EXPECT_THAT(s.Says(11, MoverOutcome::kLost, DriverState::kUnknown), ElementsAre("state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kDone, DriverState::kRunning), ElementsAre("moved b", "return 11"));
  EXPECT_EQ(s.machine.record().held.begin()->second, (BytesByGpu{{"b", GiB(10)}}));
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running", "! job_moved"));
}

// A job that has left a, and is being restored on b.
Story OnItsWayToB() {
  Story s;
  s.Process(11, GiB(10));
  s.Observe();
  s.Can(true);
  s.Move("b");
  s.Checkpointed(11);
  s.Room(GiB(10), true, "b");
  return s;
}

TEST(SuspendMove, ALockedProcessOfADeadMoverCountsOnTheNewGpu) {
  Story s = OnItsWayToB();
  s.Says(11, MoverOutcome::kLost, DriverState::kUnknown);
  EXPECT_THAT(s.Says(11, MoverOutcome::kDone, DriverState::kLocked), ElementsAre("moved b", "restore 11"));
  EXPECT_THAT(s.Restored(11), ElementsAre("= running", "! job_moved"));
}

TEST(SuspendMove, ThatFollowsAnotherAtOnceStartsWhereTheJobIs) {
  Story s = OnItsWayToB();
  EXPECT_THAT(s.Restored(11), ElementsAre("moved b", "= running", "! job_moved"));
  s.Observe();  // the sample is older than the move: it shows the process on a
  s.Move("a");
  s.Checkpointed(11);
  EXPECT_THAT(s.Room(GiB(10), true, "a"), ElementsAre("= resuming moving", "restore 11 a>b b>a c>c"));
  EXPECT_THAT(s.Restored(11), ElementsAre("moved a", "= running", "! job_moved"));
}

TEST(SuspendMove, ARestoreThatWasNotDoneIsMadeAgain) {
  Story s = OnItsWayToB();
  EXPECT_THAT(s.Says(11, MoverOutcome::kLost, DriverState::kUnknown), ElementsAre("state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kDone, DriverState::kCheckpointed),
              ElementsAre("restore 11 a>b b>a c>c"));
  EXPECT_THAT(s.Restored(11), ElementsAre("moved b", "= running", "! job_moved"));
}

TEST(SuspendMove, ThatANewDaemonFindsDoneCountsWhereItIs) {
  for (const std::string gpu : {"a", "b"}) {
    Story before;
    before.Process(11, GiB(10));
    before.Observe();
    before.Can(true);
    before.Move("b");
    before.Checkpointed(11);
    before.Room(GiB(10), true, "b");
    Story s;
    s.machine = SuspensionStateMachine::Rebuild({}, before.machine.record());
    s.Process(11, GiB(10), {}, gpu);
    s.Can(true);
    EXPECT_THAT(s.Observe(), ElementsAre("state? 11"));
    const Words said = s.Says(11, MoverOutcome::kDone, DriverState::kRunning);
    EXPECT_EQ(std::count(said.begin(), said.end(), "moved b"), gpu == "b" ? 1 : 0) << gpu;
  }
}

// A job of two processes that has left a, and waits for room on b.
Story TwoThatLeftForB() {
  Story s;
  s.Process(11, GiB(1));
  s.Process(12, GiB(1));
  s.Observe();
  s.Can(true);
  s.Move("b");
  s.Checkpointed(12);
  s.Checkpointed(11);
  return s;
}

TEST(SuspendMove, ThatFailsHalfWayStaysSuspendedAndGoesOnToTheOtherGpuAsAWhole) {
  Story s = TwoThatLeftForB();
  s.Room(GiB(10), true, "b");
  EXPECT_THAT(s.Restored(11), ElementsAre("moved b", "restore 12 a>b b>a c>c"));
  EXPECT_THAT(s.Says(12, MoverOutcome::kRefused, DriverState::kCheckpointed),
              ElementsAre("= retreating move_failed", "! move_failed", "checkpoint 11"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended move_failed"));
  // One of them was on the other GPU by then, so the job counts there. The other process follows.
  EXPECT_TRUE(s.machine.CanResume("b"));
  EXPECT_FALSE(s.machine.CanResume("a")) << "its memory belongs to two GPUs";
  s.Suspend();
  s.Resume();
  EXPECT_EQ(s.machine.Needs(s.now), (BytesByGpu{{"b", GiB(2)}}));
  EXPECT_THAT(s.Room(GiB(2), true, "b"), ElementsAre("= resuming resuming", "restore 11"));
  EXPECT_THAT(s.Restored(11), ElementsAre("restore 12 a>b b>a c>c"));
  EXPECT_THAT(s.Restored(12), ElementsAre("moved b", "= running", "! job_moved"));
}

// The process has moved to b and could not take its memory back. It is on its way out again when the user
// names a. The mover dies before it checkpoints the process, twice: the process is still on b.
TEST(SuspendMove, AProcessThatStayedOnTheOtherGpuLeavesItFirst) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Observe();
  s.Can(true);
  s.Move("b");
  s.Evicted(11);
  s.Checkpointed(11);
  s.Room(GiB(10), true, "b");
  s.Restored(11);
  EXPECT_THAT(s.Shim(11, EvictionProgress::kFailed, "the mover ended"),
              IsSupersetOf({"! move_failed", "evict 11"}));
  EXPECT_THAT(s.Evicted(11), ElementsAre("checkpoint 11"));
  EXPECT_THAT(s.Move("a"), IsEmpty());
  EXPECT_THAT(s.Says(11, MoverOutcome::kLost, DriverState::kUnknown), ElementsAre("state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kDone, DriverState::kRunning), ElementsAre("checkpoint 11"))
      << "tried again";
  EXPECT_THAT(s.Says(11, MoverOutcome::kLost, DriverState::kUnknown), Contains("! process_not_suspended"));
  s.Resume("a");
  EXPECT_THAT(s.Room(GiB(10), true, "a"), ElementsAre("= resuming resuming", "state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kDone, DriverState::kRunning),
              ElementsAre("= retreating move_failed", "! move_failed", "checkpoint 11"));
  EXPECT_THAT(s.Detail(), HasSubstr("process 11 is still on GPU b"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended resources"));
  s.now += SuspensionSettings{}.retry;
  EXPECT_THAT(s.Room(GiB(10), true, "a"), ElementsAre("= resuming resuming", "restore 11 a>b b>a c>c"));
  EXPECT_THAT(s.Restored(11), ElementsAre("moved a", "return 11"));
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running", "! job_moved"));
}

TEST(SuspendMove, OneThatWaitsForRoomCountsWhereItWasWhenItIsCalledOff) {
  Story s;
  s.Process(11, GiB(10));
  s.Observe();
  s.Can(true);
  s.Move("b");
  s.Checkpointed(11);
  EXPECT_THAT(s.Room(GiB(1), true, "b"), ElementsAre("= suspended resources"));
  EXPECT_THAT(s.Resume(), ElementsAre("moved a", "= suspended resources"));
  EXPECT_EQ(s.machine.Needs(s.now), (BytesByGpu{{"a", GiB(10)}}));
  EXPECT_THAT(s.Room(GiB(10)), ElementsAre("= resuming resuming", "restore 11"));
  EXPECT_THAT(s.Restored(11), ElementsAre("= running", "! job_resumed"));
}

TEST(SuspendMove, CalledOffDuringARestoreOnTheOtherGpuTheRestFollowsThere) {
  Story s = TwoThatLeftForB();
  EXPECT_THAT(s.Room(GiB(2), true, "b"), ElementsAre("= resuming moving", "restore 11 a>b b>a c>c"));
  s.Suspend();
  s.Resume();
  EXPECT_THAT(s.Restored(11), ElementsAre("moved b", "restore 12 a>b b>a c>c"));
  EXPECT_THAT(s.Restored(12), ElementsAre("moved b", "= running"));
}

TEST(SuspendMove, ResumeMayNameAnotherGpu) {
  Story s = Suspended();
  EXPECT_THAT(s.Resume("b"), ElementsAre("= suspended resources"));
  EXPECT_THAT(s.Room(GiB(11), true, "b"), ElementsAre("= resuming resuming", "restore 11 a>b b>a c>c"));
}

TEST(SuspendMove, IsRefusedWhereItCannotWork) {
  Story s;
  s.Process(11, GiB(10));
  s.Observe();
  for (const auto& [gpu, code, why] : {std::tuple("x", base::ErrorCode::kNotFound, "there is no GPU x"),
                                       std::tuple("a", base::ErrorCode::kConflict, "on GPU a already"),
                                       std::tuple("c", base::ErrorCode::kUnsatisfiable, "same kind")}) {
    const auto can = s.machine.CanMove(gpu);
    ASSERT_FALSE(can) << gpu;
    EXPECT_EQ(can.error().code, code);
    EXPECT_THAT(can.error().message, HasSubstr(why));
    EXPECT_THAT(s.Move(gpu), ElementsAre("! move_refused"));
  }
  EXPECT_TRUE(s.machine.CanMove("b"));
  s.At(11).gpus["c"] = {MiB(500), {}, {}};
  s.Observe();
  EXPECT_FALSE(s.machine.CanMove("b")) << "on two GPUs";
}

TEST(SuspendMove, NeedsTheDriversCheckpoint) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Observe();
  s.Move("b");
  EXPECT_THAT(s.Can(false), IsEmpty());
  EXPECT_THAT(s.Evicted(11), ElementsAre("= undoing move_failed", "! move_failed", "return 11"));
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running move_failed"));
  EXPECT_FALSE(s.machine.CanMove("b"));
}

}  // namespace
}  // namespace gpuman::suspend
