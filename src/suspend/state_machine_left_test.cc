// Tests jobs of which something stays on their GPUs: contexts, and memory that processes share with each
// other.
#include "suspend/test_state_machine.h"

namespace gpuman::suspend {
namespace {

using ::testing::Contains;
using ::testing::Not;

// Two processes on two GPUs. Of 10 GiB each, 9 can leave; the rest are a context and memory that they share.
class SuspensionOfSharedMemoryTest : public testing::Test {
 protected:
  SuspensionOfSharedMemoryTest() {
    s_.gpus = {{"a", "NVIDIA H200", 0}, {"b", "NVIDIA H200", 1}, {"c", "NVIDIA A100", 2}};
    s_.Process(11, GiB(10), GiB(9)).shares = true;
    s_.Process(12, GiB(11), GiB(9), "b").holds_imported = true;
    s_.Observe();
    s_.Can(true);
  }
  void Suspend() {
    EXPECT_THAT(s_.Suspend(), ElementsAre("= suspending held_by_user", "evict 11", "evict 12"));
    EXPECT_THAT(s_.Evicted(11), IsEmpty());
    EXPECT_THAT(s_.Evicted(12), ElementsAre("= suspended held_by_user", "! job_suspended"));
  }
  // All of it is in host memory, and it is to come back. From now on the mover answers by hand.
  void IsAwayAndWanted() {
    s_.by_hand = true;
    s_.Suspend();
    s_.Evicted(11);
    s_.Evicted(12);
    s_.MoverAnswered(11, Verb::kSecure);
    s_.MoverAnswered(12, Verb::kSecure);
    s_.Resume();
  }
  // Process 12 has left. 100 ms later the last list of processes on GPU a is of `time`, and has process 11
  // with all of its memory.
  void SuspendWithListOf(base::MonoTime time) {
    s_.Suspend();
    s_.Evicted(12);
    s_.now += base::Millis(100);
    s_.At(11).gpus["a"] = {GiB(10), {}, GiB(9), {}, time};
  }
  void RestartDaemon() {
    const std::string stored = SerializeRecord(s_.machine.record());
    s_.machine = SuspensionStateMachine::Rebuild({}, ParseRecord(stored).value());
  }
  static const BytesByGpu kLeft;
  Story s_;
};

const BytesByGpu SuspensionOfSharedMemoryTest::kLeft{{"a", GiB(1)}, {"b", GiB(2)}};

TEST_F(SuspensionOfSharedMemoryTest, ShimsEvictAloneAndRestIsReportedPerGpu) {
  Suspend();
  EXPECT_EQ(s_.machine.record().left, kLeft);
  EXPECT_EQ(s_.Detail(),
            "18GiB are in host memory; 1GiB stay on GPU 0 and 2GiB on GPU 1: contexts, and memory that "
            "processes share (NCCL, CUDA IPC)");
  EXPECT_EQ(s_.machine.InHost(), GiB(18));
  EXPECT_THAT(s_.Observe(), IsEmpty()) << "they are no newcomers";
  EXPECT_EQ(s_.machine.Deadline(), std::nullopt);
}

TEST_F(SuspensionOfSharedMemoryTest, ReturnNeedsNoDriverAndNoRoomForMemoryThatStayed) {
  Suspend();
  s_.Resume();
  EXPECT_EQ(s_.machine.Needs(s_.now), (BytesByGpu{{"a", GiB(9)}, {"b", GiB(9)}}));
  EXPECT_THAT(s_.Feed(event::RoomAvailable{{{"a", GiB(9)}, {"b", GiB(9)}}, true}),
              ElementsAre("= resuming resuming", "return 11", "return 12"));
  EXPECT_THAT(s_.MemoryRestored(12), IsEmpty());
  EXPECT_THAT(s_.MemoryRestored(11), ElementsAre("= running", "! job_resumed"));
  EXPECT_TRUE(s_.machine.record().left.empty());
}

TEST_F(SuspensionOfSharedMemoryTest, NoProcessRunsBeforeMemoryOfAllIsBack) {
  IsAwayAndWanted();
  EXPECT_THAT(s_.Feed(event::RoomAvailable{{{"a", GiB(9)}, {"b", GiB(9)}}, true}),
              ElementsAre("= resuming resuming", "load 11", "load 12 b"));
  EXPECT_THAT(s_.MoverAnswered(11, Verb::kLoad), IsEmpty());
  EXPECT_THAT(s_.MoverAnswered(12, Verb::kLoad), ElementsAre("return 11", "return 12"));
}

// Their shims take the memory while the mover copies it.
class SuspensionFetchTest : public SuspensionOfSharedMemoryTest {
 protected:
  SuspensionFetchTest() {
    s_.At(11).fetches = s_.At(12).fetches = true;
    IsAwayAndWanted();
  }
  Words ComeBack() { return s_.Feed(event::RoomAvailable{{{"a", GiB(9)}, {"b", GiB(9)}}, true}); }
};

TEST_F(SuspensionFetchTest, NoGateOpensBeforeAllHaveTheirMemory) {
  EXPECT_THAT(ComeBack(), ElementsAre("= resuming resuming", "fetch 11", "fetch 12"));
  EXPECT_THAT(s_.Shim(12, EvictionProgress::kRestoring), IsEmpty());
  EXPECT_THAT(s_.Fetched(11), IsEmpty());
  EXPECT_THAT(s_.Fetched(12), ElementsAre("return 11", "return 12"));
  EXPECT_THAT(s_.Shim(11, EvictionProgress::kOnGpu), IsEmpty());
  s_.At(11).held = s_.At(12).held = false;
  EXPECT_THAT(s_.Shim(12, EvictionProgress::kOnGpu), ElementsAre("= running", "! job_resumed"));
}

TEST_F(SuspensionFetchTest, ProcessWithoutRoomKeepsOthersAtTheirGates) {
  ComeBack();
  s_.Fetched(11);
  EXPECT_THAT(s_.Shim(12, EvictionProgress::kFailed, "no room on the device"),
              ElementsAre("= retreating resume_failed", "! resume_failed", "evict 11", "evict 12"));
  EXPECT_THAT(s_.Evicted(11), ElementsAre("secure 11"));
  s_.MoverAnswered(11, Verb::kSecure);
  EXPECT_THAT(s_.Evicted(12), ElementsAre("secure 12"));
  EXPECT_THAT(s_.MoverAnswered(12, Verb::kSecure), ElementsAre("= suspended resources"));
}

TEST_F(SuspensionFetchTest, MemoryThatReturnedAndLeftUnseenIsSecuredAgain) {
  ComeBack();
  s_.Shim(12, EvictionProgress::kFailed, "no room on the device");
  EXPECT_THAT(s_.Evicted(11), ElementsAre("secure 11")) << "it was on the GPU meanwhile";
}

// The processes are held where they are, and the copies go on.
TEST_F(SuspensionFetchTest, CancelledFetchOpensNoGateBeforeAllHaveTheirMemory) {
  ComeBack();
  s_.Fetched(11);
  s_.Shim(12, EvictionProgress::kRestoring);
  s_.Feed(event::SuspendAsked{"held_by_user", "by me"});
  EXPECT_THAT(s_.Resume(), Contains("= undoing resuming"));
  EXPECT_THAT(s_.Observe(), Not(Contains("return 11")));
}

TEST_F(SuspensionFetchTest, NewDaemonWaitsForMemoryOfAllProcesses) {
  ComeBack();
  s_.Shim(11, EvictionProgress::kRestoring);
  s_.Fetched(12);
  RestartDaemon();
  EXPECT_THAT(s_.Observe(), ElementsAre("state? 11"));
  EXPECT_THAT(s_.Restored(11), ElementsAre("state? 12"));
  EXPECT_THAT(s_.Restored(12), ElementsAre("fetch 12"));
  EXPECT_THAT(s_.Fetched(12), IsEmpty());
  EXPECT_THAT(s_.Fetched(11), ElementsAre("return 11", "return 12"));
}

TEST_F(SuspensionFetchTest, ShimWithoutFetchMakesAllProcessesLoad) {
  s_.At(12).fetches = false;
  s_.Observe();
  EXPECT_THAT(ComeBack(), ElementsAre("= resuming resuming", "load 11", "load 12 b"));
}

TEST_F(SuspensionFetchTest, JobSuspendedAgainDuringReturnLeaves) {
  ComeBack();
  s_.Fetched(11);
  s_.Shim(12, EvictionProgress::kRestoring);
  const Words asked = s_.Feed(event::SuspendAsked{"held_by_user", "by me"});
  EXPECT_THAT(asked, Contains("evict 11"));
  EXPECT_THAT(asked, Contains("evict 12"));
  EXPECT_THAT(s_.Evicted(11), ElementsAre("secure 11"));
  s_.MoverAnswered(11, Verb::kSecure);
  EXPECT_THAT(s_.Evicted(12), ElementsAre("secure 12"));
  EXPECT_THAT(s_.MoverAnswered(12, Verb::kSecure), Contains("= suspended held_by_user"));
}

TEST_F(SuspensionOfSharedMemoryTest, ProcessWithoutRoomKeepsOthersAtTheirGates) {
  IsAwayAndWanted();
  s_.Feed(event::RoomAvailable{{{"a", GiB(9)}, {"b", GiB(9)}}, true});
  s_.MoverAnswered(11, Verb::kLoad);
  EXPECT_THAT(s_.MoverAnswered(12, Verb::kLoad, MoverOutcome::kNoRoom),
              ElementsAre("= retreating resume_failed", "! resume_failed", "secure 11", "secure 12"));
  s_.MoverAnswered(11, Verb::kSecure);
  EXPECT_THAT(s_.MoverAnswered(12, Verb::kSecure), ElementsAre("= suspended resources"));
}

TEST_F(SuspensionOfSharedMemoryTest, OnlyProcessWithoutShimIsCheckpointed) {
  s_.Process(13, MiB(500), MiB(10));  // its shim could leave this to the driver
  s_.Process(14, MiB(700));
  s_.Observe();
  s_.Suspend();
  EXPECT_THAT(s_.Evicted(11), ElementsAre("evict 13"));
  s_.Evicted(12);
  EXPECT_THAT(s_.Evicted(13), ElementsAre("checkpoint 14"));
  EXPECT_THAT(s_.Checkpointed(14), ElementsAre("= suspended held_by_user", "! job_suspended"));
  EXPECT_EQ(s_.machine.record().left, (BytesByGpu{{"a", GiB(1) + MiB(490)}, {"b", GiB(2)}}));
  s_.Resume();
  EXPECT_THAT(s_.Feed(event::RoomAvailable{{{"a", GiB(99)}, {"b", GiB(99)}}, true}), Contains("restore 14"));
  EXPECT_THAT(s_.Restored(14), ElementsAre("return 11", "return 12", "return 13"));
}

TEST_F(SuspensionOfSharedMemoryTest, ProcessWithoutEvictableMemoryWaitsAtItsGate) {
  s_.Process(13, MiB(500), MiB(0)).holds_imported = true;
  s_.Observe();
  EXPECT_THAT(s_.Suspend(), ElementsAre("= suspending held_by_user", "evict 11", "evict 12", "evict 13"));
  s_.Evicted(13);
  s_.Evicted(12);
  EXPECT_THAT(s_.Evicted(11), ElementsAre("= suspended held_by_user", "! job_suspended"));
  s_.Resume();
  EXPECT_THAT(s_.Feed(event::RoomAvailable{{{"a", GiB(9)}, {"b", GiB(9)}}, true}), Contains("return 13"));
}

TEST_F(SuspensionOfSharedMemoryTest, FailedEvictionOfOneProcessLetsAllRunOn) {
  s_.Suspend();
  s_.Evicted(12);
  EXPECT_THAT(s_.Shim(11, EvictionProgress::kFailed, "no host memory"),
              ElementsAre("= undoing suspend_failed", "! suspend_failed", "return 11", "return 12"));
  s_.Shim(11, EvictionProgress::kOnGpu);
  EXPECT_THAT(s_.MemoryRestored(12), ElementsAre("= running suspend_failed"));
  EXPECT_TRUE(s_.machine.record().left.empty());
}

TEST_F(SuspensionOfSharedMemoryTest, SilentProcessIsNotCheckpointed) {
  s_.Suspend();
  s_.Evicted(12);
  const Words turned = s_.Wait();
  EXPECT_THAT(turned, Contains("! suspend_failed"));
  EXPECT_THAT(turned, Not(Contains("checkpoint 11")));
}

TEST_F(SuspensionOfSharedMemoryTest, AJobOfWhichNothingCanLeaveIsNotSuspended) {
  Story s;
  s.Process(11, GiB(3), MiB(0)).shares = true;
  s.Process(12, GiB(1), MiB(0)).holds_imported = true;
  s.Observe();
  s.Can(true);
  s.Suspend();
  s.Evicted(11);
  EXPECT_THAT(s.Evicted(12), ElementsAre("= undoing suspend_unsupported", "! suspend_unsupported",
                                         "return 11", "return 12"));
  EXPECT_THAT(s.Detail(), HasSubstr("share memory"));
}

TEST_F(SuspensionOfSharedMemoryTest, AJobThatComesBackCanBeSuspendedAgain) {
  for (int i = 0; i < 2; ++i) {
    Suspend();
    s_.Resume();
    s_.Feed(event::RoomAvailable{{{"a", GiB(9)}, {"b", GiB(9)}}, true});
    s_.MemoryRestored(11);
    s_.MemoryRestored(12);
    s_.Observe();
  }
}

TEST_F(SuspensionOfSharedMemoryTest, ProcessThatEndsDuringSuspensionLeavesNothing) {
  Suspend();
  s_.Dies(12);
  EXPECT_EQ(s_.machine.record().left, (BytesByGpu{{"a", GiB(1)}}));
}

// --- A move would need the driver's checkpoint.

TEST_F(SuspensionOfSharedMemoryTest, AMoveIsRefusedWithTheReason) {
  const auto is_refused = [](const base::Result<>& can) {
    ASSERT_FALSE(can);
    EXPECT_EQ(can.error().code, base::ErrorCode::kUnsatisfiable);
    EXPECT_THAT(can.error().message,
                HasSubstr("share memory (NCCL, CUDA IPC): it can be suspended, not moved"));
  };
  is_refused(s_.machine.CanMove("b"));
  Suspend();
  is_refused(s_.machine.CanResume("b"));
  EXPECT_TRUE(s_.machine.CanResume(std::nullopt));
}

TEST(SuspensionOfSharedMemoryOnOneGpu, MoveIsUndoneWhenSharedMemoryIsFoundOnTheWay) {
  Story s;
  s.Process(11, GiB(10), GiB(9)).holds_imported = true;  // memory that came back looks the same
  s.Process(12, GiB(10), GiB(9));
  s.Observe();
  s.Can(true);
  EXPECT_THAT(s.Move("b"), Contains("evict 11"));
  s.Evicted(12);
  EXPECT_THAT(s.Evicted(11), ElementsAre("= undoing move_failed", "! move_failed", "return 11", "return 12"));
  EXPECT_THAT(s.Detail(), HasSubstr("share memory"));
}

TEST(SuspensionOfSharedMemoryOnOneGpu, MemoryThatCameBackDoesNotHinderAMove) {
  Story s;
  s.Process(11, GiB(10), GiB(9)).holds_imported = true;
  s.Observe();
  s.Can(true);
  EXPECT_THAT(s.Move("b"), Contains("evict 11"));
  s.At(11).holds_imported = false;
  EXPECT_THAT(s.Evicted(11), ElementsAre("checkpoint 11"));
}

// --- A daemon that is killed.

TEST_F(SuspensionOfSharedMemoryTest, NewDaemonReportsTheSameAndResumesTheJob) {
  Suspend();
  RestartDaemon();
  EXPECT_EQ(s_.machine.record().left, kLeft);
  EXPECT_THAT(s_.Observe(), ElementsAre("state? 11"));
  EXPECT_THAT(s_.Restored(11), ElementsAre("state? 12"));
  EXPECT_THAT(s_.Restored(12), IsEmpty());
  EXPECT_EQ(s_.machine.phase(), SuspensionPhase::kSuspended);
  EXPECT_EQ(s_.machine.record().left, kLeft);
  s_.Resume();
  EXPECT_THAT(s_.Feed(event::RoomAvailable{{{"a", GiB(9)}, {"b", GiB(9)}}, true}),
              ElementsAre("= resuming resuming", "return 11", "return 12"));
}

TEST_F(SuspensionOfSharedMemoryTest, NewDaemonContinuesTheSuspension) {
  s_.Suspend();
  s_.Evicted(12);
  s_.At(11).eviction = EvictionProgress::kEvicting;
  RestartDaemon();
  EXPECT_THAT(s_.Observe(), ElementsAre("state? 11"));
  s_.Restored(11);
  s_.Restored(12);
  EXPECT_THAT(s_.Can(true), IsEmpty());
  EXPECT_THAT(s_.Evicted(11), ElementsAre("= suspended held_by_user", "! job_suspended"));
  EXPECT_EQ(s_.machine.record().left, kLeft);
}

// --- The figures of the memory that stays.

TEST_F(SuspensionOfSharedMemoryTest, FiguresThatStayOldAreReplacedByWhatTheProcessHeldLessWhatItGaveAway) {
  SuspendWithListOf(s_.now + base::Millis(99));
  EXPECT_THAT(s_.Shim(11, EvictionProgress::kEvicted), IsEmpty());
  EXPECT_TRUE(s_.machine.AwaitsFigures());
  EXPECT_THAT(s_.Wait(), ElementsAre("= suspended held_by_user", "! job_suspended"));
  EXPECT_EQ(s_.machine.record().left, kLeft);
  EXPECT_FALSE(s_.machine.AwaitsFigures());
}

TEST_F(SuspensionOfSharedMemoryTest, ANewSampleWithAnOldListOfProcessesIsNotBelieved) {
  SuspendWithListOf(s_.now + base::Millis(101));
  EXPECT_THAT(s_.Shim(11, EvictionProgress::kEvicted), IsEmpty());
  EXPECT_TRUE(s_.machine.AwaitsFigures());
  s_.Wait();
  EXPECT_EQ(s_.machine.record().left, kLeft);
}

TEST_F(SuspensionOfSharedMemoryTest, NewSampleEndsTheWaitForFigures) {
  SuspendWithListOf(s_.now + base::Millis(99));
  s_.Shim(11, EvictionProgress::kEvicted);
  s_.now += base::Millis(20);
  s_.At(11).gpus["a"] = {MiB(1100), {}, GiB(9), {}, s_.now};
  EXPECT_THAT(s_.Observe(), ElementsAre("= suspended held_by_user", "! job_suspended"));
  EXPECT_EQ(s_.machine.record().left.at("a"), MiB(1100));
}

TEST_F(SuspensionOfSharedMemoryTest, AContextStaysWhereTheDriverTellsNothingOfTheProcess) {
  s_.Suspend();
  s_.Evicted(12);
  s_.At(11).gpus["a"] = {{}, {}, GiB(9), MiB(518)};
  s_.Shim(11, EvictionProgress::kEvicted);
  EXPECT_EQ(s_.machine.record().left.at("a"), MiB(518));
}

TEST_F(SuspensionOfSharedMemoryTest, TheEventsHaveWhatStaysAltogetherAndForEachGpu) {
  s_.Suspend();
  s_.by_hand = true;
  s_.Evicted(11);
  s_.Evicted(12);
  s_.MoverAnswered(11, Verb::kSecure);
  const auto data_of = [&](const event::MoverAnswered& answer) {
    const Actions actions = s_.machine.On(answer, s_.now);
    const auto* told = actions.empty() ? nullptr : std::get_if<action::Emit>(&actions.back());
    return told ? told->data : std::map<std::string, std::int64_t>{};
  };
  const auto data = data_of({Story::IdOf(12), Verb::kSecure, {.outcome = MoverOutcome::kDone}});
  ASSERT_TRUE(data.contains("left"));
  EXPECT_EQ(data.at("left"), static_cast<std::int64_t>(GiB(3).count));
  EXPECT_EQ(data.at("left.a"), static_cast<std::int64_t>(GiB(1).count));
  EXPECT_EQ(data.at("left.b"), static_cast<std::int64_t>(GiB(2).count));
}

}  // namespace
}  // namespace gpuman::suspend
