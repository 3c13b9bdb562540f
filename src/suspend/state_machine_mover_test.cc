// Tests what the mover does while the driver works, event by event.
#include "suspend/test_state_machine.h"

namespace gpuman::suspend {
namespace {

using ::testing::Contains;
using ::testing::Not;

// Process 11, whose shim could hand 9 GiB of its 10 to the mover.
Story OnItsGpu() {
  Story s;
  s.by_hand = true;
  s.Process(11, GiB(10), GiB(9));
  s.Observe();
  s.Can(true);
  return s;
}

// Process 11 has handed it out.
Story HandedOut() {
  Story s = OnItsGpu();
  s.Suspend();
  EXPECT_THAT(s.Evicted(11), ElementsAre("secure 11", "checkpoint 11"));
  return s;
}

Story SuspendedByMover() {
  Story s = HandedOut();
  s.Checkpointed(11);
  s.MoverAnswered(11, Verb::kSecure);
  EXPECT_EQ(s.machine.phase(), SuspensionPhase::kSuspended);
  return s;
}

Story OnTheWayBack() {
  Story s = SuspendedByMover();
  s.Resume();
  EXPECT_THAT(s.Room(GiB(10)), ElementsAre("= resuming resuming", "load 11", "restore 11"));
  return s;
}

TEST(SuspendMover, MoverCopiesDuringCheckpointAndBothAreWaitedFor) {
  Story first = HandedOut();
  EXPECT_THAT(first.Checkpointed(11), IsEmpty());
  EXPECT_THAT(first.MoverAnswered(11, Verb::kSecure),
              ElementsAre("= suspended held_by_user", "! job_suspended"));
  Story second = HandedOut();
  EXPECT_THAT(second.MoverAnswered(11, Verb::kSecure), IsEmpty());
  EXPECT_THAT(second.Checkpointed(11), ElementsAre("= suspended held_by_user", "! job_suspended"));
}

TEST(SuspendMover, MoverCopiesBackDuringRestoreAndShimFetchesAfterBoth) {
  Story first = OnTheWayBack();
  EXPECT_THAT(first.MoverAnswered(11, Verb::kLoad), IsEmpty());
  EXPECT_THAT(first.Restored(11), ElementsAre("return 11"));
  EXPECT_THAT(first.MemoryRestored(11), ElementsAre("= running", "! job_resumed"));
  Story second = OnTheWayBack();
  EXPECT_THAT(second.Restored(11), IsEmpty());
  EXPECT_THAT(second.MoverAnswered(11, Verb::kLoad), ElementsAre("return 11"));
}

// Process 11 on its way to GPU b.
Story Leaving() {
  Story s = OnItsGpu();
  s.Move("b");
  EXPECT_THAT(s.Evicted(11), ElementsAre("secure 11 b", "checkpoint 11"));
  return s;
}

TEST(SuspendMover, MemoryStaysOnTheGpuThatItLeavesUntilTheProcessIsOnTheOther) {
  Story s = Leaving();
  EXPECT_THAT(s.Straight(11, Verb::kSecure), IsEmpty());
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended moving", "! job_suspended"));
  EXPECT_THAT(s.Detail(), HasSubstr("9GiB go straight to the other GPU"));
  EXPECT_THAT(s.Room(GiB(10), true, "b"),
              ElementsAre("= resuming moving", "load 11 b", "restore 11 a>b b>a c>c"));
  EXPECT_THAT(s.Straight(11, Verb::kLoad), IsEmpty());
  EXPECT_THAT(s.Restored(11), ElementsAre("moved b", "return 11"));
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running", "! job_moved"));
}

TEST(SuspendMover, MemoryDoesNotWaitOnTheGpuThatItLeaves) {
  Story s = Leaving();
  s.Straight(11, Verb::kSecure);
  s.Checkpointed(11);
  EXPECT_THAT(s.Room(GiB(3), true, "b"), ElementsAre("= suspended resources", "secure 11"));
  s.MoverAnswered(11, Verb::kSecure);
  EXPECT_THAT(s.Room(GiB(3), true, "b"), IsEmpty());
  EXPECT_THAT(s.Room(GiB(10), true, "b"),
              ElementsAre("= resuming resuming", "load 11 b", "restore 11 a>b b>a c>c"));
}

TEST(SuspendMover, AFailedDirectCopyGoesToHostMemoryFirst) {
  Story s = Leaving();
  s.Straight(11, Verb::kSecure);
  s.Checkpointed(11);
  s.Room(GiB(10), true, "b");
  EXPECT_THAT(s.MoverAnswered(11, Verb::kLoad, MoverOutcome::kLost), ElementsAre("load 11 b"));
  s.Straight(11, Verb::kLoad);
  s.Restored(11);
  EXPECT_THAT(s.Shim(11, EvictionProgress::kFailed, "no room"),
              ElementsAre("= retreating move_failed", "! move_failed", "evict 11"));
  EXPECT_THAT(s.Shim(11, EvictionProgress::kEvicted), ElementsAre("secure 11", "checkpoint 11"));
}

TEST(SuspendMover, JobSuspendedDuringMoveResumesOnTheOtherGpu) {
  Story s = Leaving();
  s.Straight(11, Verb::kSecure);
  s.Checkpointed(11);
  s.Room(GiB(10), true, "b");
  s.Restored(11);
  s.Suspend();
  s.MoverAnswered(11, Verb::kLoad);
  s.Checkpointed(11);
  s.MoverAnswered(11, Verb::kSecure);
  ASSERT_EQ(s.machine.phase(), SuspensionPhase::kSuspended);
  s.Resume();
  EXPECT_THAT(s.Room(GiB(10), true, "b"), ElementsAre("= resuming resuming", "load 11 b", "restore 11"));
}

TEST(SuspendMover, SuspendDuringMovePutsMemoryIntoHostMemory) {
  Story s = Leaving();
  s.Straight(11, Verb::kSecure);
  s.Checkpointed(11);
  EXPECT_THAT(s.Suspend(), ElementsAre("moved a", "= suspended held_by_user", "secure 11"));
}

TEST(SuspendMover, DeadMoverIsReplacedByAnother) {
  Story s = HandedOut();
  s.Checkpointed(11);
  EXPECT_THAT(s.MoverAnswered(11, Verb::kSecure, MoverOutcome::kLost), ElementsAre("secure 11"));
  EXPECT_THAT(s.MoverAnswered(11, Verb::kSecure), ElementsAre("= suspended held_by_user", "! job_suspended"));
  s.Resume();
  s.Room(GiB(10));
  EXPECT_THAT(s.MoverAnswered(11, Verb::kLoad, MoverOutcome::kLost), ElementsAre("load 11"));
}

// The job was suspended just as its turn began and its shim took its memory back.
TEST(SuspendMover, EmptyBatchOnTheWayOutIsRetriedAfterNextLookAtProcess) {
  Story s = HandedOut();
  EXPECT_THAT(s.MoverAnswered(11, Verb::kSecure, MoverOutcome::kNothing), IsEmpty());
  EXPECT_THAT(s.Checkpointed(11), IsEmpty()) << "it is not off the GPU yet";
  EXPECT_THAT(s.Observe(), ElementsAre("secure 11"));
  EXPECT_THAT(s.MoverAnswered(11, Verb::kSecure), ElementsAre("= suspended held_by_user", "! job_suspended"));
}

TEST(SuspendMover, RepeatedlyMissingBatchFailsTheSuspension) {
  Story s = HandedOut();
  for (int i = 0; i < 100 && s.machine.phase() == SuspensionPhase::kSuspending; ++i) {
    s.MoverAnswered(11, Verb::kSecure, MoverOutcome::kNothing);
    s.Observe();
  }
  EXPECT_EQ(s.machine.phase(), SuspensionPhase::kUndoing);
  EXPECT_THAT(s.Detail(), HasSubstr("the memory of process 11"));
}

// A daemon that was killed is followed by one that looks at the process before the shim has written all that
// the earlier order changed.
TEST(SuspendMover, EmptyBatchOnTheWayBackIsRetriedAfterNextLookAtProcess) {
  Story s = OnTheWayBack();
  EXPECT_THAT(s.MoverAnswered(11, Verb::kLoad, MoverOutcome::kNothing), Not(Contains("load 11")));
  EXPECT_EQ(s.machine.phase(), SuspensionPhase::kResuming);
  EXPECT_THAT(s.Observe(), Contains("load 11"));
}

TEST(SuspendMover, RepeatedlyMissingBatchFailsTheReturn) {
  Story s = OnTheWayBack();
  for (int i = 0; i < 100 && s.machine.phase() == SuspensionPhase::kResuming; ++i) {
    s.MoverAnswered(11, Verb::kLoad, MoverOutcome::kNothing);
    s.Observe();
  }
  EXPECT_EQ(s.machine.record().reason, "resume_failed");
  EXPECT_THAT(s.Detail(), HasSubstr("the memory of process 11"));
  EXPECT_THAT(s.MoverAnswered(11, Verb::kSecure, MoverOutcome::kNothing), IsEmpty());
  EXPECT_EQ(s.machine.phase(), SuspensionPhase::kRetreating) << "a new way counts anew";
}

TEST(SuspendMover, FailedCopyGivesMemoryBackUnchanged) {
  Story s = HandedOut();
  EXPECT_THAT(s.MoverAnswered(11, Verb::kSecure, MoverOutcome::kFailed),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "load 11"));
  EXPECT_THAT(s.MoverAnswered(11, Verb::kLoad), IsEmpty()) << "the driver is still at it";
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("restore 11"));
  EXPECT_THAT(s.Restored(11), ElementsAre("return 11"));
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running suspend_failed"));
  EXPECT_THAT(s.Detail(), HasSubstr("the memory of process 11: it said so"));
}

TEST(SuspendMover, MemoryStaysInHostMemoryWithoutRoomForTheReturn) {
  Story s = OnTheWayBack();
  EXPECT_THAT(s.MoverAnswered(11, Verb::kLoad, MoverOutcome::kNoRoom),
              ElementsAre("= retreating resume_failed", "! resume_failed", "secure 11"));
  EXPECT_THAT(s.Restored(11), ElementsAre("checkpoint 11"));
  EXPECT_THAT(s.Checkpointed(11), IsEmpty());
  EXPECT_THAT(s.MoverAnswered(11, Verb::kSecure), ElementsAre("= suspended resources"));
}

TEST(SuspendMover, AProcessSuspendedWhileItLoadsIsSecuredAfterwards) {
  Story s = OnTheWayBack();
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user"));
  EXPECT_THAT(s.MoverAnswered(11, Verb::kLoad), ElementsAre("secure 11"));
  EXPECT_THAT(s.Restored(11), ElementsAre("checkpoint 11"));
}

TEST(SuspendMover, MemoryThatTheDriverCannotRestoreLeavesByTheShimHoweverLittleItIs) {
  Story s;
  s.Process(11, MiB(508), MiB(8)).holds_imported = true;
  s.Observe();
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "can?", "evict 11"));
  s.At(11).holds_imported = false;
  EXPECT_THAT(s.Evicted(11), IsEmpty());
  EXPECT_THAT(s.Can(true), ElementsAre("checkpoint 11"));
}

TEST(SuspendMover, EvictionWaitsForSampleWithCurrentFigures) {
  Story s;
  s.Process(11, MiB(0), MiB(128)).figures_current = false;
  s.Observe();
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "can?"));
  s.At(11).gpus["a"].used = MiB(234);
  s.At(11).figures_current = true;
  EXPECT_THAT(s.Observe(), ::testing::Contains("evict 11"));
  EXPECT_EQ(s.machine.record().held.at(Story::IdOf(11)).at("a"), MiB(234));
}

TEST(SuspendMover, WithAnOldSampleTheContextIsAddedToTheShimsCount) {
  Story s;
  s.Process(11, MiB(106), MiB(1024)).gpus["a"].context = MiB(106);
  s.Observe();
  EXPECT_THAT(s.Suspend(), ::testing::Contains("evict 11"));
  EXPECT_EQ(s.machine.record().held.at(Story::IdOf(11)).at("a"), MiB(1130));
}

TEST(SuspendMover, EvictionBeginsAfterTheWaitWithoutCurrentSample) {
  Story s;
  s.Process(11, MiB(0), MiB(128)).figures_current = false;
  s.Observe();
  s.Suspend();
  EXPECT_THAT(s.Wait(), ::testing::Contains("evict 11"));
}

TEST(SuspendMover, NothingIsCheckpointedThatTheDriverCannotRestore) {
  Story silent, alone;
  silent.Process(11, MiB(900), MiB(400)).holds_imported = true;
  silent.Observe();
  EXPECT_THAT(silent.Suspend(), ElementsAre("= suspending held_by_user", "can?", "evict 11"));
  const Words turned = silent.Wait();
  EXPECT_THAT(turned, ::testing::Contains("! suspend_failed"));
  EXPECT_THAT(turned, ::testing::Not(::testing::Contains("checkpoint 11")));

  alone.Process(11, MiB(900)).holds_imported = true;
  alone.Observe();
  alone.Suspend();
  EXPECT_THAT(alone.Can(true),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "= running suspend_failed"));
  EXPECT_THAT(alone.Detail(), HasSubstr("process 11 has memory of another process on the GPU"));
}

TEST(SuspendMover, MovedJobIsLoadedOnTheOtherGpu) {
  Story s = SuspendedByMover();
  s.Resume("b");
  EXPECT_THAT(s.Room(GiB(10), true, "b"),
              ElementsAre("= resuming resuming", "load 11 b", "restore 11 a>b b>a c>c"));
}

TEST(SuspendMover, ANewDaemonAsksWhetherTheDataAreWhole) {
  Story before = SuspendedByMover();
  Story s;
  s.by_hand = true;
  s.machine = SuspensionStateMachine::Rebuild({}, before.machine.record());
  s.processes = before.processes;
  EXPECT_THAT(s.Observe(), ElementsAre("secure 11", "state? 11"));
}

TEST(SuspendMover, EventHasDurationOfEachPart) {
  Story s = HandedOut();
  s.Feed(event::DriverAnswered{
      Story::IdOf(11),
      {.outcome = MoverOutcome::kDone, .state = DriverState::kCheckpointed, .took = base::Millis(300)}});
  const auto actions = s.machine.On(
      event::MoverAnswered{
          Story::IdOf(11),
          Verb::kSecure,
          {.outcome = MoverOutcome::kDone, .bytes = GiB(9), .unchanged = GiB(7), .took = base::Millis(180)}},
      s.now);
  const auto* told = std::get_if<action::Emit>(&actions.back());
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->data.at("milliseconds_checkpoint"), 300);
  EXPECT_EQ(told->data.at("milliseconds_copy"), 180);
  EXPECT_EQ(told->data.at("copied"), static_cast<std::int64_t>(GiB(2).count));
}

}  // namespace
}  // namespace gpuman::suspend
