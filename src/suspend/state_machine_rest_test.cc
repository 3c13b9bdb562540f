// Processes that may wait for each other on the GPU, and processes that are stopped.
#include "suspend/state_machine_fixture.h"

namespace gpuman::suspend {
namespace {

class Together : public testing::Test {
 protected:
  Together() {
    s_.holds_by_hand = true;
    s_.Process(11, GiB(10), GiB(9));
    s_.Process(12, GiB(10), GiB(9), "b");
    s_.Look();
    s_.Can(true);
  }
  Words Fails(pid_t pid) {
    return s_.Shim(pid, ShimStage::kFailed, "its GPU work did not come to an end in time");
  }
  Words Runs(pid_t pid) {
    s_.At(pid).held = false;
    return s_.Shim(pid, ShimStage::kOnGpu);
  }
  Story s_;
};

TEST_F(Together, NothingLeavesBeforeAllHaveComeToRest) {
  EXPECT_THAT(s_.Suspend(), ElementsAre("= suspending held_by_user", "hold 11", "hold 12"));
  EXPECT_THAT(s_.Rests(12), IsEmpty());
  EXPECT_THAT(s_.Rests(11), ElementsAre("evict 11", "evict 12"));
}

TEST_F(Together, WhereOneDoesNotComeToRestAllRunOnAndNothingHasMoved) {
  s_.Suspend();
  s_.Rests(12);
  EXPECT_THAT(Fails(11),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "return 11", "return 12"));
  EXPECT_THAT(Runs(11), IsEmpty());
  EXPECT_THAT(Runs(12), ElementsAre("= running suspend_failed"));
  EXPECT_EQ(s_.Detail(), "process 11 did not come to rest: its GPU work did not come to an end in time");
}

TEST_F(Together, AJobThatSharesRunsOnAsWellWithoutWaitingForItsTurn) {
  SuspensionSettings settings;
  settings.returns_held = true;
  s_.machine.SetSettings(settings);
  s_.Suspend();
  s_.Rests(12);
  s_.At(11).stage = ShimStage::kFailed;
  s_.At(11).answered = true;
  int returned = 0;
  for (const Action& action : s_.machine.On(event::Observed{s_.processes, s_.gpus}, s_.now)) {
    const auto* back = std::get_if<action::OrderReturn>(&action);
    if (!back) continue;
    ++returned;
    EXPECT_FALSE(back->held);
  }
  EXPECT_EQ(returned, 2);
}

TEST_F(Together, OneThatDoesNotAnswerIsLeftToTheDriver) {
  s_.Suspend();
  s_.Rests(12);
  EXPECT_THAT(s_.Wait(), ElementsAre("return 11", "evict 12"));
  EXPECT_THAT(s_.Evicted(12), ElementsAre("checkpoint 12"));
}

TEST_F(Together, OneThatHasTakenTheOrderUpHasItsTime) {
  s_.Suspend();
  s_.Rests(12);
  s_.At(11).closing = true;
  s_.Look();
  const auto since = s_.now;
  EXPECT_THAT(s_.Wait(),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "return 11", "return 12"));
  EXPECT_EQ(s_.now - since, SuspensionSettings{}.lock_timeout + SuspensionSettings{}.answer_limit);
}

TEST_F(Together, OneThatEndsHoldsNothingUp) {
  s_.Suspend();
  s_.Rests(12);
  EXPECT_THAT(s_.Dies(11), ElementsAre("evict 12"));
}

TEST_F(Together, OneThatComesMeanwhileIsHeldAsWell) {
  s_.Suspend();
  s_.Rests(11);
  s_.Process(13, GiB(5), GiB(4));
  EXPECT_THAT(s_.Look(), ElementsAre("hold 13"));
  EXPECT_THAT(s_.Rests(12), IsEmpty());
  EXPECT_THAT(s_.Rests(13), ElementsAre("evict 11", "evict 12", "evict 13"));
}

TEST_F(Together, WhoAsksForItsReturnMeanwhileHasItRunOn) {
  s_.Suspend();
  s_.Rests(11);
  EXPECT_THAT(s_.Resume(), ElementsAre("= undoing resuming", "return 11", "return 12"));
}

TEST_F(Together, ADaemonThatComesBackLetsThoseGoThatTheLastOneHeld) {
  s_.Suspend();
  s_.Rests(12);
  Fails(11);
  s_.machine = SuspensionStateMachine::Rebuild({}, s_.machine.record());
  s_.At(12).answered = s_.At(12).held = true;
  s_.At(11).answered = true;
  s_.At(11).stage = ShimStage::kOnGpu;
  EXPECT_THAT(s_.Look(), ElementsAre("state? 11"));
  EXPECT_THAT(s_.Restored(11), ElementsAre("state? 12"));
  EXPECT_THAT(s_.Restored(12), ElementsAre("return 12"));
  EXPECT_THAT(Runs(12), ElementsAre("= running suspend_failed"));
}

// --- Stopped processes: the driver's calls would not return.

TEST(SuspendStopped, AStoppedJobIsRefusedWithWhatToDo) {
  Story s;
  s.Process(11, GiB(10), GiB(9)).stopped = true;
  s.Look();
  const auto can = s.machine.CanSuspend();
  ASSERT_FALSE(can);
  EXPECT_EQ(can.error().code, base::ErrorCode::kConflict);
  EXPECT_THAT(can.error().message, HasSubstr("process 11 is stopped"));
  EXPECT_THAT(can.error().hint, HasSubstr("kill -CONT 11"));
}

TEST(SuspendStopped, OneThatIsStoppedOnTheWayIsNotAskedOfTheDriver) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Look();
  s.Can(true);
  s.Suspend();
  s.At(11).stopped = true;
  EXPECT_THAT(s.Evicted(11), ElementsAre("= undoing suspend_failed", "! suspend_failed", "return 11"));
  EXPECT_THAT(s.Detail(), HasSubstr("process 11 is stopped"));
}

TEST(SuspendStopped, OneThatIsStoppedWhileItIsAwayWaitsUntilItGoesOn) {
  Story s;
  s.Process(11, GiB(10));
  s.Look();
  s.Can(true);
  s.Suspend();
  s.Checkpointed(11);
  s.Resume();
  s.At(11).stopped = true;
  s.Look();
  EXPECT_FALSE(s.machine.Needs(s.now));
  EXPECT_FALSE(s.machine.CanResume(std::nullopt));
  s.At(11).stopped = false;
  s.Look();
  EXPECT_TRUE(s.machine.Needs(s.now));
  EXPECT_THAT(s.Room(GiB(20)), ElementsAre("= resuming resuming", "restore 11"));
}

}  // namespace
}  // namespace gpuman::suspend
