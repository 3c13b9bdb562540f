// Tests jobs that are suspended because they are idle.
#include "suspend/idle.h"
#include "suspend/test_state_machine.h"

namespace gpuman::suspend {
namespace {

class IdleSuspensionTest : public testing::Test {
 protected:
  IdleSuspensionTest() {
    s_.rests_by_hand = true;
    s_.Process(11, GiB(10), GiB(9));
    s_.Observe();
    s_.Can(true);
  }
  Words Leaves() {
    return s_.Feed(event::SuspendAsked{kIdleReason, "no GPU call for 10min", {}, base::Millis(600'000)});
  }
  void GoesAway() {
    Leaves();
    s_.Rested();
    s_.Evicted(11);
    s_.Checkpointed(11);
  }
  Story s_;
};

TEST_F(IdleSuspensionTest, IdleJobLeavesWholeAndReportsReasonAndFreedMemory) {
  EXPECT_THAT(Leaves(), ElementsAre("= suspending idle", "rest"));
  EXPECT_THAT(s_.Rested(), ElementsAre("evict 11"));
  s_.Evicted(11);
  const auto actions = s_.machine.On(
      event::DriverAnswered{Story::IdOf(11),
                            {.outcome = MoverOutcome::kDone, .state = DriverState::kCheckpointed}},
      s_.now);
  const auto* const told = std::get_if<action::Emit>(&actions.back());
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->kind, "job_suspended");
  EXPECT_THAT(told->message, testing::StartsWith("no GPU call for 10min; 10GiB are in host memory"));
  EXPECT_EQ(told->data.at("milliseconds_idle"), 600'000);
  EXPECT_EQ(told->data.at("freed"), static_cast<std::int64_t>(GiB(10).count));
  EXPECT_EQ(s_.machine.record().reason, kIdleReason);
  EXPECT_FALSE(s_.machine.record().wants_gpu) << "room alone does not bring it back";
}

TEST_F(IdleSuspensionTest, CallDuringSuspensionCancelsItWithoutEvent) {
  Leaves();
  EXPECT_THAT(s_.Resume(), ElementsAre("cancel rest", "= undoing resuming", "return 11"));
  s_.At(11).held = false;
  EXPECT_THAT(s_.Shim(11, EvictionProgress::kOnGpu), ElementsAre("= running"));
  EXPECT_EQ(s_.machine.record().reason, "");
}

TEST_F(IdleSuspensionTest, JobThatDoesNotComeToRestRunsOnWithoutEvent) {
  Leaves();
  EXPECT_THAT(s_.NotRested("process 11 works on GPU 0"), ElementsAre("= undoing resuming", "return 11"));
  s_.At(11).held = false;
  EXPECT_THAT(s_.Shim(11, EvictionProgress::kOnGpu), ElementsAre("= running"));
}

TEST_F(IdleSuspensionTest, WaitForRestIsShort) {
  s_.machine.SetSettings({.lock_timeout = base::Millis(10'000), .idle_patience = base::Millis(300)});
  const Actions actions = s_.machine.On(event::SuspendAsked{kIdleReason, "idle"}, s_.now);
  EXPECT_THAT(actions, testing::Contains(Action(action::QuiesceJob{base::Millis(300)})));
}

TEST_F(IdleSuspensionTest, ProcessWithSilentShimIsNotCheckpointed) {
  Leaves();
  s_.Rested();
  s_.now += SuspensionSettings{}.answer_limit;
  EXPECT_THAT(s_.Feed(event::Tick{}), testing::Contains("= undoing suspend_failed"));
}

TEST_F(IdleSuspensionTest, SuspendByUserKeepsIdleJobSuspended) {
  GoesAway();
  EXPECT_THAT(s_.Suspend(), ElementsAre("= suspended held_by_user"));
  EXPECT_EQ(s_.machine.record().reason, "held_by_user");
}

TEST_F(IdleSuspensionTest, ResumedIdleJobReturnsOnlyWhenThereIsRoom) {
  GoesAway();
  EXPECT_THAT(s_.Resume(), ElementsAre("= suspended resources"));
  EXPECT_THAT(s_.Room(GiB(9)), testing::Not(testing::Contains(testing::StartsWith("restore"))));
  EXPECT_THAT(s_.Room(GiB(10)), testing::Contains("restore 11"));
}

TEST_F(IdleSuspensionTest, NewProcessOutsideItsGateCountsAsCall) {
  GoesAway();
  EXPECT_FALSE(s_.machine.record().called);
  s_.Process(12, MiB(100));
  EXPECT_THAT(s_.Observe(), ElementsAre("! suspended_process_taken", "checkpoint 12"));
  EXPECT_TRUE(s_.machine.record().called);
  const auto record = ParseRecord(SerializeRecord(s_.machine.record()));
  EXPECT_TRUE(record && record->called) << "a new daemon brings it back all the same";
  s_.Checkpointed(12);
  s_.Resume();
  s_.Room(GiB(20));
  EXPECT_FALSE(s_.machine.record().called) << "it is on its way";
}

TEST_F(IdleSuspensionTest, NewProcessAtItsGateCountsAsNoCall) {
  GoesAway();
  s_.Process(12, MiB(100), MiB(1));
  s_.At(12).eviction = EvictionProgress::kOnGpu;
  s_.At(12).held = true;
  EXPECT_THAT(s_.Observe(), ElementsAre("! suspended_process_taken", "checkpoint 12"));
  EXPECT_FALSE(s_.machine.record().called);
}

TEST_F(IdleSuspensionTest, NewProcessThatCannotBeSuspendedCountsAsCall) {
  GoesAway();
  s_.Process(12, MiB(100), MiB(90));
  EXPECT_THAT(s_.Observe(), ElementsAre("! suspended_process_taken", "evict 12"));
  s_.now += SuspensionSettings{}.answer_limit;
  s_.Feed(event::Tick{});
  EXPECT_TRUE(s_.machine.record().called);
}

TEST_F(IdleSuspensionTest, NewDaemonKnowsThatJobIsSuspendedForIdleness) {
  GoesAway();
  const auto record = ParseRecord(SerializeRecord(s_.machine.record()));
  ASSERT_TRUE(record);
  const auto machine = SuspensionStateMachine::Rebuild({}, *record);
  EXPECT_EQ(machine.record().reason, kIdleReason);
  EXPECT_THAT(machine.record().detail, HasSubstr("no GPU call for 10min"));
}

}  // namespace
}  // namespace gpuman::suspend
