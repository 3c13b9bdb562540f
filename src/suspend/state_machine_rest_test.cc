// Tests processes that may wait for each other on the GPU, and processes that are stopped.
#include "suspend/test_state_machine.h"

namespace gpuman::suspend {
namespace {

using ::testing::Contains;
using ::testing::Not;

class SuspensionOfSeveralProcesses : public testing::Test {
 protected:
  SuspensionOfSeveralProcesses() {
    s_.rests_by_hand = true;
    s_.Process(11, GiB(10), GiB(9));
    s_.Process(12, GiB(10), GiB(9), "b");
    s_.Observe();
    s_.Can(true);
  }
  Words Runs(pid_t pid) {
    s_.At(pid).held = false;
    return s_.Shim(pid, EvictionProgress::kOnGpu);
  }
  Story s_;
};

TEST_F(SuspensionOfSeveralProcesses, NothingLeavesBeforeAllHaveComeToRest) {
  EXPECT_THAT(s_.Suspend(), ElementsAre("= suspending held_by_user", "rest"));
  EXPECT_THAT(s_.Observe(), IsEmpty());
  EXPECT_EQ(s_.machine.Deadline(), std::nullopt) << "the answer comes by itself";
  EXPECT_THAT(s_.Rested(), ElementsAre("evict 11", "evict 12"));
}

TEST_F(SuspensionOfSeveralProcesses, AJobThatTheShareControllerClosedIsAtRest) {
  for (const pid_t pid : {11, 12}) {
    auto& [gpu, share] = *s_.At(pid).gpus.begin();
    share.evicted = std::exchange(share.evictable, {});
    s_.At(pid).held = s_.At(pid).answered = true;
  }
  s_.Observe();
  EXPECT_THAT(s_.Suspend(), Not(Contains("rest")));
}

// Its turn begins: it has been ordered to take its memory back, and then it works again.
TEST_F(SuspensionOfSeveralProcesses, ReturningProcessComesToRestFirst) {
  for (const bool taken_up : {false, true}) {
    SCOPED_TRACE(taken_up ? "it takes its memory" : "it has not taken up the order");
    Story story;
    story.rests_by_hand = true;
    story.Process(11, GiB(10), GiB(9));
    auto& process = story.At(11);
    auto& [gpu, share] = *process.gpus.begin();
    share.evicted = std::exchange(share.evictable, {});
    process.eviction = taken_up ? EvictionProgress::kRestoring : EvictionProgress::kOnGpu;
    process.held = !taken_up;
    process.answered = false;
    story.Observe();
    story.Can(true);
    EXPECT_THAT(story.Suspend(), Contains("rest"));
  }
}

TEST_F(SuspensionOfSeveralProcesses, WaitForRestLastsItsTimeLimit) {
  s_.machine.SetSettings({.lock_timeout = base::Millis(700)});
  const Actions actions = s_.machine.On(event::SuspendAsked{"held_by_user", "by me"}, s_.now);
  EXPECT_THAT(actions, Contains(Action(action::QuiesceJob{base::Millis(700)})));
}

TEST_F(SuspensionOfSeveralProcesses, AllRunOnWhenOneDoesNotComeToRest) {
  s_.Suspend();
  s_.At(12).held = true;
  s_.Observe();
  EXPECT_THAT(s_.NotRested("process 11 works on GPU 0"),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "return 11", "return 12"));
  EXPECT_THAT(Runs(11), IsEmpty());
  EXPECT_THAT(Runs(12), ElementsAre("= running suspend_failed"));
  EXPECT_EQ(s_.Detail(), "the job did not come to rest: process 11 works on GPU 0");
}

TEST_F(SuspensionOfSeveralProcesses, TheEventOfAFailureSaysHowMuchDidNotRestAndWhatWasTried) {
  s_.Suspend();
  s_.now += base::Millis(1300);
  const auto actions =
      s_.machine.On(event::QuiesceFailed{"process 11 works on GPU 0", base::Millis(1200), 9, 2, 1}, s_.now);
  const auto told = std::find_if(actions.begin(), actions.end(), [](const Action& action) {
    return std::holds_alternative<action::Emit>(action);
  });
  ASSERT_NE(told, actions.end());
  auto data = std::get<action::Emit>(*told).data;
  EXPECT_EQ(data["milliseconds_rest"], 1200);
  EXPECT_EQ(data["steps"], 9);
  EXPECT_EQ(data["units"], 2);
  EXPECT_EQ(data["working"], 1);
  EXPECT_EQ(data["milliseconds"], 1300) << "of the way that failed";
}

TEST_F(SuspensionOfSeveralProcesses, MoveFailsWhenOneDoesNotComeToRest) {
  s_.Process(13, {}, MiB(0), "b");
  s_.Dies(12);
  s_.Move("b");
  EXPECT_THAT(s_.NotRested("process 11 works"), Contains("= undoing move_failed"));
}

TEST_F(SuspensionOfSeveralProcesses, AJobThatSharesRunsOnAsWellWithoutWaitingForItsTurn) {
  SuspensionSettings settings;
  settings.restores_held = true;
  s_.machine.SetSettings(settings);
  s_.Suspend();
  int returned = 0;
  for (const Action& action : s_.machine.On(event::QuiesceFailed{"it works"}, s_.now)) {
    const auto* back = std::get_if<action::OrderRestore>(&action);
    if (!back) continue;
    ++returned;
    EXPECT_FALSE(back->held);
  }
  EXPECT_EQ(returned, 2);
}

TEST_F(SuspensionOfSeveralProcesses, SilentProcessOfSeveralIsNotCheckpointed) {
  s_.Suspend();
  s_.At(12).held = s_.At(12).answered = true;
  s_.At(11).answered = false;
  s_.Observe();
  EXPECT_THAT(s_.NotRested("process 11 does not answer"),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "return 11", "return 12"));
}

TEST_F(SuspensionOfSeveralProcesses, ProcessThatEndsDoesNotDelayTheOthers) {
  s_.Suspend();
  EXPECT_THAT(s_.Dies(11), IsEmpty());
  EXPECT_THAT(s_.Rested(), ElementsAre("evict 12"));
}

TEST_F(SuspensionOfSeveralProcesses, NewProcessIsHeldAndSuspendedWithTheOthers) {
  s_.Suspend();
  s_.Process(13, GiB(5), GiB(4));
  EXPECT_THAT(s_.Observe(), IsEmpty());
  EXPECT_THAT(s_.Rested(), ElementsAre("evict 11", "evict 12", "evict 13"));
}

TEST_F(SuspensionOfSeveralProcesses, NewProcessRunsOnWhenTheAttemptFails) {
  s_.Suspend();
  s_.Process(13, GiB(5), GiB(4));
  s_.Observe();
  EXPECT_THAT(s_.NotRested("it works"), ElementsAre("= undoing suspend_failed", "! suspend_failed",
                                                    "return 11", "return 12", "return 13"));
}

TEST_F(SuspensionOfSeveralProcesses, ProcessWithoutContextIsNotWaitedFor) {
  auto& bare = s_.Process(13, {}, MiB(0));
  bare.eviction = EvictionProgress::kNone;
  bare.answered = false;
  s_.Observe();
  s_.Suspend();
  EXPECT_THAT(s_.NotRested("it works"), Contains("return 13"));
  Runs(11);
  EXPECT_THAT(Runs(12), ElementsAre("= running suspend_failed"));
}

TEST_F(SuspensionOfSeveralProcesses, AResumeDuringTheAttemptLetsTheJobRunOn) {
  s_.Suspend();
  EXPECT_THAT(s_.Resume(), ElementsAre("cancel rest", "= undoing resuming", "return 11", "return 12"));
  EXPECT_THAT(s_.Feed(event::JobQuiesced{}), IsEmpty()) << "the answer to an earlier order";
  EXPECT_THAT(s_.NotRested("it works"), IsEmpty());
}

TEST_F(SuspensionOfSeveralProcesses, AJobThatEndsMeanwhileIsNotWaitedFor) {
  s_.Suspend();
  EXPECT_THAT(s_.Feed(event::Ended{}), ElementsAre("cancel rest"));
}

TEST_F(SuspensionOfSeveralProcesses, EventHasTimeToRestAndGrantedCalls) {
  s_.Suspend();
  s_.Dies(12);
  s_.Feed(event::JobQuiesced{base::Millis(40), 7});
  s_.Evicted(11);
  const auto actions = s_.machine.On(
      event::DriverAnswered{Story::IdOf(11),
                            {.outcome = MoverOutcome::kDone, .state = DriverState::kCheckpointed}},
      s_.now);
  const auto* told = std::get_if<action::Emit>(&actions.back());
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->data.at("milliseconds_rest"), 40);
  EXPECT_EQ(told->data.at("steps"), 7);
}

TEST_F(SuspensionOfSeveralProcesses, NewDaemonBringsProcessesToRestAgain) {
  s_.Suspend();
  s_.At(12).held = s_.At(12).answered = true;
  s_.At(11).answered = false;
  s_.Observe();
  s_.machine = SuspensionStateMachine::Rebuild({}, s_.machine.record());
  EXPECT_THAT(s_.Observe(), ElementsAre("state? 11"));
  EXPECT_THAT(s_.Restored(11), ElementsAre("state? 12"));
  EXPECT_THAT(s_.Restored(12), ElementsAre("rest"));
  EXPECT_THAT(s_.Rested(), ElementsAre("evict 11", "evict 12"));
}

TEST_F(SuspensionOfSeveralProcesses, NewDaemonReleasesProcessesThatTheLastOneHeld) {
  s_.Suspend();
  s_.At(12).held = true;
  s_.Observe();
  s_.NotRested("process 11 works");
  s_.machine = SuspensionStateMachine::Rebuild({}, s_.machine.record());
  s_.At(12).answered = s_.At(12).held = true;
  s_.At(11).answered = true;
  s_.At(11).eviction = EvictionProgress::kOnGpu;
  EXPECT_THAT(s_.Observe(), ElementsAre("state? 11"));
  EXPECT_THAT(s_.Restored(11), ElementsAre("state? 12"));
  EXPECT_THAT(s_.Restored(12), ElementsAre("return 12"));
  EXPECT_THAT(Runs(12), ElementsAre("= running suspend_failed"));
}

// --- Jobs of one process come to rest in the same way.

class SuspensionOfOneProcess : public testing::Test {
 protected:
  SuspensionOfOneProcess() {
    s_.rests_by_hand = true;
    s_.Process(11, GiB(10), GiB(9));
    s_.Observe();
    s_.Can(true);
    EXPECT_THAT(s_.Suspend(), ElementsAre("= suspending held_by_user", "rest"));
    s_.At(11).answered = false;
    s_.Observe();
  }
  Story s_;
};

TEST_F(SuspensionOfOneProcess, AProcessThatWorksTooLongRunsOn) {
  s_.At(11).closing = true;
  s_.Observe();
  EXPECT_THAT(s_.NotRested("process 11: its GPU work did not come to an end in time"),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "return 11"));
}

TEST_F(SuspensionOfOneProcess, AProcessThatDoesNotAnswerIsLeftToTheDriver) {
  EXPECT_THAT(s_.NotRested("process 11 does not answer"), ElementsAre("return 11", "checkpoint 11"));
  EXPECT_THAT(s_.Checkpointed(11), ElementsAre("= suspended held_by_user", "! job_suspended"));
}

TEST_F(SuspensionOfOneProcess, ASilentProcessThatSharesMemoryIsNotCheckpointed) {
  s_.At(11).shares = true;
  s_.Observe();
  EXPECT_THAT(s_.NotRested("process 11 does not answer"), Not(Contains("checkpoint 11")));
}

TEST(SuspensionWithDriverMemory, MemoryThatTheDriverTakesIsAtRestAsWell) {
  Story s;
  s.rests_by_hand = true;
  s.Process(11, MiB(508), MiB(8));
  s.Observe();
  s.Can(true);
  EXPECT_THAT(s.Suspend(), ElementsAre("= suspending held_by_user", "rest"));
  EXPECT_THAT(s.Rested(), ElementsAre("checkpoint 11"));
  s.Checkpointed(11);
  s.Resume();
  s.Room(GiB(1));
  EXPECT_THAT(s.Restored(11), ElementsAre("return 11")) << "it stands at its gate";
  s.At(11).held = false;
  EXPECT_THAT(s.Shim(11, EvictionProgress::kOnGpu), ElementsAre("= running", "! job_resumed"));
}

// --- Stopped processes: the driver's calls would not return.

TEST(SuspendStopped, AStoppedJobIsRefusedWithWhatToDo) {
  Story s;
  s.Process(11, GiB(10), GiB(9)).stopped = true;
  s.Observe();
  const auto can = s.machine.CanSuspend();
  ASSERT_FALSE(can);
  EXPECT_EQ(can.error().code, base::ErrorCode::kConflict);
  EXPECT_THAT(can.error().message, HasSubstr("process 11 is stopped"));
  EXPECT_THAT(can.error().hint, HasSubstr("kill -CONT 11"));
}

TEST(SuspendStopped, ProcessStoppedDuringSuspensionIsNotCheckpointed) {
  Story s;
  s.Process(11, GiB(10), GiB(9));
  s.Observe();
  s.Can(true);
  s.Suspend();
  s.At(11).stopped = true;
  EXPECT_THAT(s.Evicted(11), ElementsAre("= undoing suspend_failed", "! suspend_failed", "return 11"));
  EXPECT_THAT(s.Detail(), HasSubstr("process 11 is stopped"));
}

TEST(SuspendStopped, ProcessStoppedWhileSuspendedIsRestoredAfterItContinues) {
  Story s;
  s.Process(11, GiB(10));
  s.Observe();
  s.Can(true);
  s.Suspend();
  s.Checkpointed(11);
  s.Resume();
  s.At(11).stopped = true;
  s.Observe();
  EXPECT_FALSE(s.machine.Needs(s.now));
  EXPECT_FALSE(s.machine.CanResume(std::nullopt));
  s.At(11).stopped = false;
  s.Observe();
  EXPECT_TRUE(s.machine.Needs(s.now));
  EXPECT_THAT(s.Room(GiB(20)), ElementsAre("= resuming resuming", "restore 11"));
}

}  // namespace
}  // namespace gpuman::suspend
