// A new daemon goes on where the old one was killed.
#include "suspend/test_state_machine.h"

namespace gpuman::suspend {
namespace {

// The same job as a new daemon sees it.
Story Restarted(const Story& before) {
  Story s;
  s.machine =
      SuspensionStateMachine::Rebuild({}, ParseRecord(SerializeRecord(before.machine.record())).value());
  s.processes = before.processes;
  s.now = before.now;
  return s;
}

Story OneProcess() {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Observe();
  s.Can(true);
  return s;
}

TEST(SuspendRebuild, ARunningJobIsLeftAlone) {
  Story s = Restarted(OneProcess());
  EXPECT_THAT(s.Observe(), IsEmpty());
  EXPECT_EQ(s.machine.phase(), SuspensionPhase::kRunning);
}

TEST(SuspendRebuild, OnTheWayOutItGoesOn) {
  Story before = OneProcess();
  before.Suspend();
  before.At(11).eviction = EvictionProgress::kEvicting;
  before.At(11).answered = true;
  Story s = Restarted(before);
  EXPECT_THAT(s.Observe(), ElementsAre("state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kDone, DriverState::kRunning), IsEmpty()) << "the shim is at work";
  EXPECT_THAT(s.Evicted(11), ElementsAre("can?"));
  EXPECT_THAT(s.Can(true), ElementsAre("checkpoint 11"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended held_by_user", "! job_suspended"));
  s.Resume();
  EXPECT_EQ(s.machine.Needs(s.now), (BytesByGpu{{"a", GiB(10)}})) << "remembered from before";
}

TEST(SuspendRebuild, ACheckpointThatWasDoneMeanwhileCounts) {
  Story before = OneProcess();
  before.Suspend();
  before.Evicted(11);
  Story s = Restarted(before);
  EXPECT_THAT(s.Observe(), ElementsAre("state? 11"));
  EXPECT_THAT(s.Checkpointed(11), ElementsAre("= suspended held_by_user", "! job_suspended"));
}

TEST(SuspendRebuild, ASuspendedJobStaysSuspended) {
  Story before = OneProcess();
  before.Suspend();
  before.Evicted(11);
  before.Checkpointed(11);
  Story s = Restarted(before);
  EXPECT_THAT(s.Observe(), ElementsAre("state? 11"));
  EXPECT_THAT(s.Checkpointed(11), IsEmpty());
  EXPECT_EQ(s.machine.phase(), SuspensionPhase::kSuspended);
  s.Resume();
  EXPECT_THAT(s.Room(GiB(10)), ElementsAre("= resuming resuming", "restore 11"));
}

TEST(SuspendRebuild, OnTheWayBackItGoesOn) {
  Story before = OneProcess();
  before.Suspend();
  before.Evicted(11);
  before.Checkpointed(11);
  before.Resume();
  before.Room(GiB(10));
  Story s = Restarted(before);
  EXPECT_THAT(s.Observe(), ElementsAre("state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kDone, DriverState::kRunning), ElementsAre("return 11"));
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running", "! job_resumed"));
}

TEST(SuspendRebuild, AnUndoingGoesOnAndKeepsItsReason) {
  Story before = OneProcess();
  before.Suspend();
  before.Evicted(11);
  before.Says(11, MoverOutcome::kTimeout, DriverState::kRunning);
  Story s = Restarted(before);
  EXPECT_THAT(s.Observe(), ElementsAre("state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kDone, DriverState::kRunning), ElementsAre("return 11"));
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running suspend_failed"));
  EXPECT_THAT(s.Detail(), HasSubstr("did not come to rest"));
}

TEST(SuspendRebuild, MemoryEvictedWithoutARecordIsRestored) {
  Story before = OneProcess();
  Story s = Restarted(before);
  s.At(11).eviction = EvictionProgress::kEvicted;
  s.At(11).gpus["a"] = {GiB(1), {}, GiB(9)};
  EXPECT_THAT(s.Observe(), ElementsAre("= undoing suspend_failed", "state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kDone, DriverState::kRunning), ElementsAre("return 11"));
  EXPECT_THAT(s.MemoryRestored(11), ElementsAre("= running suspend_failed"));
}

TEST(SuspendRebuild, WithoutCheckpointInTheDriverNothingWasCheckpointed) {
  Story before;
  before.Process(11, GiB(10), GiB(9));
  before.Observe();
  before.Suspend();
  before.Can(false);
  before.Evicted(11);
  EXPECT_EQ(before.machine.phase(), SuspensionPhase::kSuspended);
  Story s = Restarted(before);
  EXPECT_THAT(s.Observe(), ElementsAre("state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kUnsupported, DriverState::kUnknown), IsEmpty());
  s.Resume();
  EXPECT_THAT(s.Room(GiB(10)), ElementsAre("= resuming resuming", "return 11"));
}

TEST(SuspendRebuild, AMoverThatCannotSayLeavesItSuspended) {
  Story before = OneProcess();
  before.Suspend();
  before.Evicted(11);
  before.Checkpointed(11);
  before.Resume();
  Story s = Restarted(before);
  EXPECT_THAT(s.Observe(), ElementsAre("state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kFailed, DriverState::kUnknown), ElementsAre("state? 11"));
  EXPECT_THAT(s.Says(11, MoverOutcome::kFailed, DriverState::kUnknown),
              ElementsAre("! process_not_suspended"));
  EXPECT_EQ(s.machine.phase(), SuspensionPhase::kSuspended);
}

// The daemon before had ordered the shim to return. When the job is suspended again, nothing of it leaves
// before all of it is at rest.
TEST(SuspendRebuild, AShimThatReturnsIsHeldBeforeTheNextWayOut) {
  Story before;
  before.Process(11, GiB(1));
  before.Process(12, GiB(10), GiB(9));
  before.Observe();
  before.Suspend();
  before.Can(true);
  before.Evicted(12);
  before.Checkpointed(12);
  before.Checkpointed(11);
  before.Resume();
  before.Room(GiB(11));
  Story s = Restarted(before);
  s.rests_by_hand = true;
  s.At(12).eviction = EvictionProgress::kEvicting;
  EXPECT_THAT(s.Observe(), ElementsAre("state? 11"));
  s.At(12).gpus["a"] = {GiB(10), GiB(9), {}};
  s.Shim(12, EvictionProgress::kRestoring);
  s.Suspend();
  EXPECT_THAT(s.Says(11, MoverOutcome::kDone, DriverState::kRunning), ElementsAre("state? 12"));
  EXPECT_THAT(s.Says(12, MoverOutcome::kDone, DriverState::kRunning), ElementsAre("rest"));
}

}  // namespace
}  // namespace gpuman::suspend
