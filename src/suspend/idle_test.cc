#include "suspend/idle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::suspend {
namespace {

using base::JobId;
using base::Millis;
using base::MonoTime;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;

constexpr JobId kJob{7};
constexpr Millis kAfter{600'000};

MonoTime At(std::int64_t seconds) { return MonoTime(std::chrono::seconds(seconds)); }

IdleProcess Process(ProcessActivity activity, MonoTime since = {}, pid_t pid = 1) {
  return {.id = {pid, 1}, .has_shim = true, .on_gpu = true, .activity = activity, .since = since};
}

IdleJob Job(std::vector<IdleProcess> processes) {
  return {.job = kJob, .after = kAfter, .no_gate = "", .reason = "", .processes = std::move(processes)};
}

IdleDecisions Decide(const IdleJob& job, MonoTime now, const std::map<JobId, IdleBackoff>& memory = {}) {
  return DecideIdle({job}, {}, memory, now);
}

TEST(Idle, AJobLeavesWhenItHasMadeNoCallForItsTime) {
  const auto job = Job({Process(ProcessActivity::kIdle, At(100))});
  const auto before = Decide(job, At(699));
  EXPECT_THAT(before.leave, IsEmpty());
  EXPECT_EQ(before.again, At(700));
  const auto then = Decide(job, At(700));
  EXPECT_THAT(then.leave, ElementsAre(IdleDecisions::Leave{kJob, kAfter}));
  EXPECT_EQ(then.again, std::nullopt);
}

TEST(Idle, TheLastCallOfAnyProcessCounts) {
  const auto job =
      Job({Process(ProcessActivity::kIdle, At(100)), Process(ProcessActivity::kIdle, At(200), 2)});
  EXPECT_THAT(Decide(job, At(700)).leave, IsEmpty());
  EXPECT_THAT(Decide(job, At(800)).leave, ElementsAre(IdleDecisions::Leave{kJob, kAfter}));
}

TEST(Idle, AJobStaysWhileAnyProcessWorksWaitsOrIsNotKnown) {
  for (const auto activity : {ProcessActivity::kBusy, ProcessActivity::kWaits, ProcessActivity::kUnknown}) {
    const auto decisions =
        Decide(Job({Process(ProcessActivity::kIdle, At(100)), Process(activity, At(100), 2)}), At(9'999));
    EXPECT_THAT(decisions.leave, IsEmpty());
    EXPECT_THAT(decisions.spare, IsEmpty());
    EXPECT_THAT(decisions.wake, IsEmpty());
    EXPECT_EQ(decisions.again, std::nullopt);
  }
}

TEST(Idle, AJobWithNothingOnAGpuHasNothingToGive) {
  auto process = Process(ProcessActivity::kIdle, At(100));
  process.on_gpu = false;
  EXPECT_THAT(Decide(Job({process}), At(9'999)).leave, IsEmpty());
  EXPECT_THAT(Decide(Job({}), At(9'999)).leave, IsEmpty());
}

TEST(Idle, WithoutASettingNothingHappens) {
  auto job = Job({Process(ProcessActivity::kIdle, At(100))});
  job.after.reset();
  EXPECT_THAT(Decide(job, At(9'999)).leave, IsEmpty());
  EXPECT_EQ(IdlenessOf(job).why_never, "");
}

TEST(Idle, AJobOfWhichNotAllCallsAreSeenStaysAndSaysWhy) {
  auto alien = Process(ProcessActivity::kIdle, At(100), 44);
  alien.has_shim = false;
  auto job = Job({Process(ProcessActivity::kIdle, At(100)), alien});
  EXPECT_THAT(Decide(job, At(9'999)).leave, IsEmpty());
  EXPECT_THAT(Decide(job, At(9'999)).spare, IsEmpty());
  EXPECT_THAT(IdlenessOf(job).why_never, HasSubstr("process 44 has no libgpuman.so"));
  job = Job({Process(ProcessActivity::kIdle, At(100))});
  job.no_gate = "it has none";
  EXPECT_THAT(Decide(job, At(9'999)).leave, IsEmpty());
  EXPECT_EQ(IdlenessOf(job).why_never, "it has none");
}

TEST(Idle, ForPressureAShorterTimeIsEnough) {
  auto job = Job({Process(ProcessActivity::kIdle, At(100))});
  EXPECT_THAT(Decide(job, At(109)).spare, IsEmpty());
  EXPECT_EQ(Decide(job, At(109)).again, At(110));
  EXPECT_THAT(Decide(job, At(110)).spare, ElementsAre(Key(kJob)));
  job.after = Millis(2'000);
  EXPECT_THAT(Decide(job, At(102)).spare, ElementsAre(Key(kJob)));
}

TEST(Idle, ACallBringsBackAJobThatIsAwayOrOnItsWayForBeingIdle) {
  for (const auto phase : {SuspensionPhase::kSuspending, SuspensionPhase::kSuspended}) {
    auto job = Job({Process(ProcessActivity::kIdle), Process(ProcessActivity::kWaits, {}, 2)});
    job.phase = phase;
    job.reason = kIdleReason;
    EXPECT_THAT(Decide(job, At(1)).wake, ElementsAre(kJob));
    job.after.reset();
    job.no_gate = "it has none";
    EXPECT_THAT(Decide(job, At(1)).wake, ElementsAre(kJob)) << "the setting was taken away meanwhile";
    job.processes[1].activity = ProcessActivity::kIdle;
    EXPECT_THAT(Decide(job, At(9'999)).wake, IsEmpty());
  }
}

TEST(Idle, ACallThatNoGateShowsBringsBackAJobThatIsAwayForBeingIdle) {
  auto job = Job({});
  job.called = true;
  job.phase = SuspensionPhase::kSuspended;
  job.reason = kIdleReason;
  EXPECT_THAT(Decide(job, At(1)).wake, ElementsAre(kJob));
  job.reason = "held_by_user";
  EXPECT_THAT(Decide(job, At(1)).wake, IsEmpty());
}

TEST(Idle, ACallDoesNotBringBackWhatSomebodyElseTookAway) {
  for (const char* reason : {"held_by_user", "device_pressure", "preempted", "resources", "resume_failed"}) {
    auto job = Job({Process(ProcessActivity::kWaits)});
    job.phase = SuspensionPhase::kSuspended;
    job.reason = reason;
    EXPECT_THAT(Decide(job, At(1)).wake, IsEmpty()) << reason;
  }
}

TEST(Idle, AJobThatIsAwayOrMovingIsNotAskedAgain) {
  for (const auto phase :
       {SuspensionPhase::kSuspending, SuspensionPhase::kSuspended, SuspensionPhase::kResuming,
        SuspensionPhase::kUndoing, SuspensionPhase::kRetreating}) {
    auto job = Job({Process(ProcessActivity::kIdle, At(100))});
    job.phase = phase;
    EXPECT_THAT(Decide(job, At(9'999)).leave, IsEmpty());
    EXPECT_THAT(Decide(job, At(9'999)).spare, IsEmpty());
  }
}

TEST(Idle, AfterAFailureAJobIsLeftAloneForAWhile) {
  const auto job = Job({Process(ProcessActivity::kIdle, At(100))});
  std::map<JobId, IdleBackoff> memory;
  RecordFailure(memory[kJob], IdleFailure::kNotAtRest, kAfter, {}, At(700));
  EXPECT_THAT(Decide(job, At(1'299), memory).leave, IsEmpty());
  EXPECT_THAT(Decide(job, At(1'299), memory).spare, IsEmpty());
  EXPECT_EQ(Decide(job, At(1'299), memory).again, At(1'300));
  EXPECT_THAT(Decide(job, At(1'300), memory).leave,
              ElementsAre(IdleDecisions::Leave{kJob, Millis(1'200'000)}));
}

TEST(Idle, AJobThatCouldNotLeaveIsAskedLessOften) {
  IdleBackoff memory;
  RecordFailure(memory, IdleFailure::kOther, Millis(1'000), {}, At(10));
  EXPECT_EQ(memory.not_before, At(310));
  RecordFailure(memory, IdleFailure::kNotAtRest, Millis(1'000), {}, At(10));
  EXPECT_EQ(memory.not_before, At(11));
  RecordFailure(memory, IdleFailure::kOther, Millis(900'000), {}, At(10));
  EXPECT_EQ(memory.not_before, At(910));
}

TEST(Idle, ShimsLookOftenEnoughForTheTime) {
  EXPECT_EQ(WatchFor(Millis(1)), Millis(20));
  EXPECT_EQ(WatchFor(Millis(1'000)), Millis(250));
  EXPECT_EQ(WatchFor(kAfter), Millis(1'000));
}

}  // namespace
}  // namespace gpuman::suspend
