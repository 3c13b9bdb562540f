#include "jobs/lifecycle.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace gpuman::jobs {
namespace {

using keeper::EndKind;
using keeper::EndReason;
using keeper::JobEnded;
using keeper::KeeperStarted;
using keeper::RestartScheduled;
using keeper::RunEnded;
using keeper::RunStarted;
using keeper::StartFailed;
using keeper::StopOrdered;

base::WallTime At(int seconds) { return base::WallTime(base::Millis(seconds * 1000)); }

// A job and its events, in order; this class numbers the records.
class Story {
 public:
  Story() {
    job.id = {7};
    job.tag = "train";
    job.command = {"python", "train.py"};
  }

  Story& Write(keeper::RecordBody body) {
    ++seq_;
    return ApplyEvent(RecordReceived{{seq_, At(static_cast<int>(seq_)), base::Millis(0), std::move(body)}});
  }
  Story& ApplyEvent(const JobEvent& event) {
    last = Apply(job, event);
    job = last.job;
    for (const JobNotice& notice : last.notices) kinds += (kinds.empty() ? "" : " ") + notice.kind;
    return *this;
  }
  Story& KeeperStarts(pid_t pid = 50, const char* boot = "boot-1") {
    return Write(KeeperStarted{{pid, 5}, boot, "/cg", "key", "1"});
  }
  Story& Runs(keeper::RunNumber run = 1) { return Write(RunStarted{run, {60, 6}, {}}); }
  Story& Ends(EndKind kind, int code, std::optional<EndReason> ordered = {}) {
    return Write(RunEnded{1, kind, code, false, base::Millis(10), {}, std::move(ordered)});
  }
  Story& FailsToStart(const char* stage) {
    return Write(StartFailed{1, stage, 0, "it was killed on its way"});
  }
  Story& Over(const char* why = "finished") { return Write(JobEnded{1, why}); }
  Story& NewIncarnation() {
    seq_ = 0;
    return *this;
  }

  Job job;
  Transition last;
  std::string kinds;

 private:
  std::uint64_t seq_ = 0;
};

const EndReason kLimit{"memory_limit", "used 600MiB of 512MiB"};

struct Ending {
  const char* what;
  EndKind kind;
  int code;
  std::optional<EndReason> ordered;
  JobState state;
  std::optional<std::string> reason;
  std::optional<int> exit_code;
  std::optional<int> signal;
};

TEST(Lifecycle, AnEndMeansWhatTheTableSays) {
  const std::vector<Ending> table{
      {"status 0", EndKind::kExited, 0, {}, JobState::kFinished, {}, 0, {}},
      {"status 3", EndKind::kExited, 3, {}, JobState::kFailed, "exit_status", 3, {}},
      {"a crash", EndKind::kSignalled, 11, {}, JobState::kFailed, "signal", {}, 11},
      {"nobody saw it", EndKind::kUnknown, 0, {}, JobState::kFailed, "keeper_lost", {}, {}},
      {"the limit", EndKind::kSignalled, 9, kLimit, JobState::kKilled, "memory_limit", {}, 9},
      {"its time limit",
       EndKind::kSignalled,
       15,
       EndReason{"time_limit", "2h is over"},
       JobState::kTimeout,
       "time_limit",
       {},
       15},
      {"its owner cancelled it",
       EndKind::kSignalled,
       15,
       EndReason{"cancelled", "by lab1"},
       JobState::kCancelled,
       "cancelled",
       {},
       15},
      {"ended cleanly when told to", EndKind::kExited, 0, kLimit, JobState::kKilled, "memory_limit", 0, {}},
  };
  for (const Ending& row : table) {
    Story story;
    story.KeeperStarts().Runs().Ends(row.kind, row.code, row.ordered);
    EXPECT_EQ(story.job.state, JobState::kStopping) << row.what;
    story.Over();
    EXPECT_EQ(story.job.state, row.state) << row.what;
    EXPECT_EQ(story.job.reason, row.reason) << row.what;
    EXPECT_EQ(story.job.exit_code, row.exit_code) << row.what;
    EXPECT_EQ(story.job.signal, row.signal) << row.what;
    EXPECT_EQ(story.job.ended_at, At(4)) << row.what;
    EXPECT_EQ(story.kinds, "job_started job_" + std::string(ToString(row.state))) << row.what;
  }
}

const KernelKill kKernelKill{.pid = 60, .name = "python3", .memory = base::GiB(61)};

TEST(Lifecycle, ARunThatTheKernelEndedForHostMemorySaysSo) {
  struct Row {
    const char* what;
    RunEnded ended;
    std::optional<JobEvent> before;
    JobState state;
    const char* reason;
  };
  const RunEnded killed{.run = 1, .kind = EndKind::kSignalled, .code = 9, .usage = {}, .ordered = {}};
  RunEnded by_limit = killed, crashed = killed, failed = killed, finished = killed;
  by_limit.ordered = kLimit;
  crashed.code = 11;
  failed.kind = finished.kind = EndKind::kExited;
  failed.code = 1, finished.code = 0;
  for (const Row& row :
       {Row{"nobody ordered it", killed, {}, JobState::kFailed, "host_memory"},
        Row{"the keeper was told", by_limit, {}, JobState::kKilled, "memory_limit"},
        Row{"the guard was about to", killed, GuardOrdered{kLimit}, JobState::kKilled, "memory_limit"},
        Row{"another signal", crashed, {}, JobState::kFailed, "signal"},
        Row{"a worker of it was ended", failed, {}, JobState::kFailed, "host_memory"}}) {
    Story story;
    story.KeeperStarts().Runs();
    if (row.before) story.ApplyEvent(*row.before);
    const keeper::JournalRecord end{3, At(3), base::Millis(0), row.ended};
    EXPECT_EQ(IsUnexplainedFailure(story.job, end), row.reason == std::string("host_memory")) << row.what;
    story.ApplyEvent(RecordReceived{end, kKernelKill});
    EXPECT_FALSE(IsUnexplainedFailure(story.job, end)) << "it is known";
    story.ApplyEvent(RecordReceived{{4, At(4), base::Millis(0), JobEnded{1, "finished"}}});
    EXPECT_EQ(story.job.state, row.state) << row.what;
    EXPECT_EQ(story.job.reason, row.reason) << row.what;
  }
  Story story;
  story.KeeperStarts().Runs();
  EXPECT_FALSE(IsUnexplainedFailure(story.job, {3, At(3), base::Millis(0), finished}));
}

TEST(Lifecycle, RunningShowsProcessAndStart) {
  Story story;
  story.KeeperStarts().Runs();
  EXPECT_EQ(story.job.state, JobState::kRunning);
  EXPECT_EQ(story.job.process, (base::ProcessId{60, 6}));
  EXPECT_EQ(story.job.started_at, At(2));
  EXPECT_EQ(story.job.runs, 1);
  EXPECT_EQ(story.job.restarts, 0);
  EXPECT_EQ(story.job.reason, std::nullopt);
}

struct Failure {
  const char* stage;
  int error;
  const char* reason;
  std::optional<int> exit_code;
};

TEST(Lifecycle, ACommandThatCannotBeExecutedFailsWithItsReason) {
  const std::vector<Failure> table{
      {"command", ENOENT, "command_not_found", 127},
      {"exec", EACCES, "command_not_executable", 126},
      {"exec", ENOEXEC, "command_not_executable", 126},
      {"directory", EACCES, "directory_unusable", {}},
      {"user", EPERM, "start_failed", {}},
  };
  for (const Failure& row : table) {
    Story story;
    story.KeeperStarts().Write(StartFailed{1, row.stage, row.error, "the sentence"}).Over("start_failed");
    EXPECT_EQ(story.job.state, JobState::kFailed) << row.reason;
    EXPECT_EQ(story.job.reason, row.reason);
    EXPECT_EQ(story.job.reason_detail, "the sentence");
    EXPECT_EQ(story.job.exit_code, row.exit_code) << row.reason;
    EXPECT_EQ(story.job.runs, 0);
  }
}

TEST(Lifecycle, ARunWhoseExecveFailedIsNoRun) {
  Story story;
  story.KeeperStarts().Runs().Write(StartFailed{1, "exec", ENOENT, "no"}).Over("start_failed");
  EXPECT_EQ(story.job.runs, 0);
  EXPECT_EQ(story.job.process, std::nullopt);
  EXPECT_EQ(story.job.reason, "command_not_found");
}

TEST(Lifecycle, AJobThatFailsBeforeItsFirstRunIsInTheAccountsWithARunOfNoLength) {
  const auto expect_account = [](const Story& story, const char* what) {
    ASSERT_TRUE(story.last.run) << what;
    EXPECT_EQ(story.last.run->outcome, "failed") << what;
    EXPECT_EQ(story.last.run->ran, base::Millis(0)) << what;
    EXPECT_EQ(story.last.run->started, story.last.run->ended) << what;
  };
  Story missing, not_executable, no_room, lost;
  missing.KeeperStarts().Write(StartFailed{1, "command", ENOENT, "no"});
  expect_account(missing, "its command");
  EXPECT_FALSE(missing.Over("start_failed").last.run) << "once";
  not_executable.KeeperStarts().Runs().Write(StartFailed{1, "exec", ENOEXEC, "no"});
  expect_account(not_executable, "its file");
  no_room.ApplyEvent(CannotStart{"no room for its directory", At(3)});
  expect_account(no_room, "its directory");
  lost.KeeperStarts().ApplyEvent(RecordsLost{"line 1 is damaged", At(9)});
  expect_account(lost, "its records");
}

TEST(Lifecycle, CancelledStartIsNotInTheAccounts) {
  Story cancelled;
  cancelled.KeeperStarts().ApplyEvent(CancelAsked{{"cancelled", "by lab1"}, At(2)}).FailsToStart("stopped");
  EXPECT_FALSE(cancelled.last.run);
  Story ran;
  ran.KeeperStarts().Runs().Ends(EndKind::kExited, 3).Write(StartFailed{2, "command", ENOENT, "gone"});
  EXPECT_FALSE(ran.last.run) << "its last run says what became of it";
}

TEST(Lifecycle, ARestartKeepsTheReasonUntilTheNewRunAndIsCounted) {
  Story story;
  story.KeeperStarts().Runs().Ends(EndKind::kExited, 3);
  story.Write(RestartScheduled{2, base::Millis(2000), 1, {}});
  EXPECT_EQ(story.job.state, JobState::kStarting);
  EXPECT_EQ(story.job.reason, "exit_status");
  EXPECT_EQ(story.job.reason_detail, "ended with exit status 3; starts again in 2s");
  story.Runs(2);
  EXPECT_EQ(story.job.state, JobState::kRunning);
  EXPECT_EQ(story.job.restarts, 1);
  EXPECT_EQ(story.job.exit_code, std::nullopt);
  EXPECT_EQ(story.job.reason, std::nullopt);
  EXPECT_EQ(story.kinds, "job_started job_restarting job_restarted");
}

TEST(Lifecycle, ExhaustedRestartsFailWithTheLastEnd) {
  Story story;
  story.KeeperStarts().Runs().Ends(EndKind::kExited, 3).Over("restarts_exhausted");
  EXPECT_EQ(story.job.state, JobState::kFailed);
  EXPECT_EQ(story.job.reason_detail, "ended with exit status 3; no restarts are left");
}

TEST(Lifecycle, AGuardOrderShowsItsReasonAtOnce) {
  Story story;
  story.KeeperStarts().Runs().ApplyEvent(GuardOrdered{kLimit});
  EXPECT_EQ(story.job.state, JobState::kStopping);
  EXPECT_EQ(story.job.reason, "memory_limit");
  EXPECT_TRUE(story.last.changed);
  story.ApplyEvent(GuardOrdered{{"device_pressure", ""}});
  EXPECT_EQ(story.job.reason, "memory_limit") << "the first order stays";
  EXPECT_FALSE(story.last.changed);
}

TEST(Lifecycle, AnOrderHoldsWhenTheKeeperThatHeardItWasKilled) {
  Story story;
  story.KeeperStarts().Runs().ApplyEvent(GuardOrdered{kLimit}).KeeperStarts(51);
  story.Ends(EndKind::kUnknown, 0, EndReason{"keeper_lost", ""}).Over();
  EXPECT_EQ(story.job.state, JobState::kKilled);
  EXPECT_EQ(story.job.reason, "memory_limit");
  EXPECT_EQ(story.job.signal, std::nullopt);
}

TEST(Lifecycle, AnOrderBeforeTheStartWasKnownIsNotForgotten) {
  Story story;
  story.KeeperStarts().ApplyEvent(StopAsked{{"stopped", "by lab1"}, false}).Runs();
  EXPECT_EQ(story.job.state, JobState::kStopping);
  EXPECT_EQ(story.job.reason, "stopped");
  EXPECT_EQ(story.job.runs, 1);
}

TEST(Lifecycle, ALostKeeperAndARebootAreToldApart) {
  Story lost;
  lost.KeeperStarts()
      .Runs()
      .KeeperStarts(51)
      .Ends(EndKind::kUnknown, 0, EndReason{"keeper_lost", "x"})
      .Over();
  EXPECT_EQ(lost.job.state, JobState::kFailed);
  EXPECT_EQ(lost.job.reason, "keeper_lost");
  EXPECT_EQ(lost.job.exit_code, std::nullopt);

  Story reboot;
  reboot.KeeperStarts().Runs().KeeperStarts(51, "boot-2");
  reboot.Ends(EndKind::kUnknown, 0, EndReason{"machine_restarted", "the machine went down"}).Over();
  EXPECT_EQ(reboot.job.state, JobState::kFailed);
  EXPECT_EQ(reboot.job.reason, "reboot");
}

TEST(Lifecycle, AStopEndsTheJobForGood) {
  Story story;
  story.KeeperStarts().Runs().ApplyEvent(StopAsked{{"stopped", "by lab1"}, false});
  EXPECT_EQ(story.last.effects, std::vector{Effect::kOrderStop});
  story.Write(StopOrdered{{"stopped", "by lab1"}})
      .Ends(EndKind::kSignalled, 15, EndReason{"stopped", "by lab1"});
  story.Over("stopped");
  EXPECT_EQ(story.job.state, JobState::kKilled);
  EXPECT_EQ(story.job.signal, 15);
  EXPECT_TRUE(story.last.effects.empty());
}

TEST(Lifecycle, AStopWhileWaitingForARestartEndsKilled) {
  Story story;
  story.KeeperStarts().Runs().Ends(EndKind::kExited, 1).Write(RestartScheduled{2, base::Millis(9000), 1, {}});
  story.Write(StopOrdered{{"stopped", "by lab1"}}).Over("stopped");
  EXPECT_EQ(story.job.state, JobState::kKilled);
  EXPECT_EQ(story.job.reason, "stopped");
}

TEST(Lifecycle, RemovingARunningJobForgetsItOnlyOnceItHasEnded) {
  Story story;
  story.KeeperStarts().Runs().ApplyEvent(StopAsked{{"removed", "by lab1"}, true});
  EXPECT_TRUE(story.job.remove_when_ended);
  EXPECT_EQ(story.last.effects, std::vector{Effect::kOrderStop});
  story.Ends(EndKind::kSignalled, 9, EndReason{"removed", ""});
  ASSERT_TRUE(story.last.run);
  EXPECT_EQ(story.last.run->outcome, "cancelled") << "its user did not want it any more";
  story.Over("stopped");
  EXPECT_EQ(story.job.state, JobState::kKilled);
  EXPECT_EQ(story.last.effects, std::vector{Effect::kForget});
}

TEST(Lifecycle, RemovingAnEndedJobForgetsItAtOnce) {
  Story story;
  story.KeeperStarts().Runs().Ends(EndKind::kExited, 0).Over().ApplyEvent(StopAsked{{"removed", ""}, true});
  EXPECT_EQ(story.last.effects, std::vector{Effect::kForget});
  EXPECT_EQ(story.job.state, JobState::kFinished);
}

TEST(Lifecycle, RestartingALivingJobIsTheKeepersWork) {
  Story story;
  story.KeeperStarts().Runs().ApplyEvent(RestartAsked{{"restart", "by lab1"}, At(9)});
  EXPECT_EQ(story.last.effects, std::vector{Effect::kOrderRestart});
  EXPECT_EQ(story.job.incarnation, 1);
  story.Ends(EndKind::kSignalled, 15, EndReason{"restart", "by lab1"});
  story.Write(RestartScheduled{2, base::Millis(0), 0, EndReason{"restart", "by lab1"}}).Runs(2);
  EXPECT_EQ(story.job.state, JobState::kRunning);
  EXPECT_EQ(story.job.restarts, 1);
}

TEST(Lifecycle, RestartingAnEndedJobBeginsANewJournal) {
  Story story;
  story.KeeperStarts().Runs().Ends(EndKind::kExited, 1).Over();
  story.ApplyEvent(RestartAsked{{"restart", "by lab1"}, At(9)});
  EXPECT_EQ(story.last.effects, std::vector{Effect::kLaunch});
  EXPECT_EQ(story.job.state, JobState::kStarting);
  EXPECT_EQ(story.job.incarnation, 2);
  EXPECT_EQ(story.job.journal_seq, 0U);
  EXPECT_EQ(story.job.ended_at, std::nullopt);
  story.NewIncarnation().KeeperStarts(70).Runs();
  EXPECT_EQ(story.job.state, JobState::kRunning);
  EXPECT_EQ(story.job.restarts, 1);
  EXPECT_EQ(story.kinds, "job_started job_failed job_restarted") << "no keeper was lost";
}

TEST(Lifecycle, ARecordReadAgainChangesNothing) {
  Story story;
  story.KeeperStarts().Runs();
  const Transition again =
      Apply(story.job, RecordReceived{{2, At(2), base::Millis(0), RunStarted{1, {60, 6}, {}}}});
  EXPECT_FALSE(again.changed);
  EXPECT_EQ(again.job.runs, 1);
  EXPECT_TRUE(again.notices.empty());
}

TEST(Lifecycle, AJobThatCannotBeStartedFails) {
  Story story;
  story.ApplyEvent(CannotStart{"no room for its directory", At(3)});
  EXPECT_EQ(story.job.state, JobState::kFailed);
  EXPECT_EQ(story.job.reason, "start_failed");
  EXPECT_EQ(story.job.ended_at, At(3));
}

TEST(Lifecycle, AJobThatLostItsRecordsEndsAsTheTableSays) {
  struct Row {
    const char* what;
    std::optional<JobEvent> before;
    JobState state;
    const char* reason;
    const char* detail;
  };
  const std::vector<Row> table{
      {"nobody ordered an end", {}, JobState::kFailed, "keeper_lost", "line 1 is damaged"},
      {"the guard did", GuardOrdered{kLimit}, JobState::kKilled, "memory_limit",
       "used 600MiB of 512MiB; line 1 is damaged"},
      {"its owner did", CancelAsked{{"cancelled", "by lab1"}, At(1)}, JobState::kCancelled, "cancelled",
       "by lab1; line 1 is damaged"},
      {"it is to be gone", StopAsked{{"removed", ""}, true, At(1)}, JobState::kKilled, "removed",
       "removed; line 1 is damaged"},
      {"it was to make room", RequeueAsked{{"preempted", "for 8"}}, JobState::kFailed, "keeper_lost",
       "line 1 is damaged"},
  };
  for (const Row& row : table) {
    Story story;
    story.job.queued = true;
    story.job.spec.Change([](spec::JobSpec& spec) {
      spec.retries.count = 3;
      spec.restart = spec::RestartMode::kAlways;
    });
    story.KeeperStarts().Runs();
    if (row.before) story.ApplyEvent(*row.before);
    story.ApplyEvent(RecordsLost{"line 1 is damaged", At(9)});
    EXPECT_EQ(story.job.state, row.state) << row.what;
    EXPECT_EQ(story.job.reason, row.reason) << row.what;
    EXPECT_EQ(story.job.reason_detail, row.detail) << row.what;
    EXPECT_EQ(story.job.ended_at, At(9)) << row.what;
    ASSERT_TRUE(story.last.run) << row.what;
    EXPECT_EQ(story.last.run->ran, base::Millis(7000)) << row.what;
    EXPECT_EQ(story.last.effects.size(), story.job.remove_when_ended ? 1 : 0) << row.what;
    story.ApplyEvent(RecordsLost{"line 1 is damaged", At(10)});
    EXPECT_FALSE(story.last.changed) << "it has ended";
  }
}

TEST(Lifecycle, ARunWhoseEndWasAccountedIsNotAccountedAgainWhenRecordsAreLost) {
  Story story;
  story.KeeperStarts().Runs().Ends(EndKind::kExited, 3).ApplyEvent(RecordsLost{"line 1 is damaged", At(9)});
  EXPECT_EQ(story.job.reason, "keeper_lost");
  EXPECT_EQ(story.job.exit_code, std::nullopt);
  EXPECT_FALSE(story.last.run);
}

TEST(Lifecycle, AnEndWithoutTheRecordOfItsRunsEndSaysSo) {
  Story story;
  story.KeeperStarts().Runs().Over();
  EXPECT_EQ(story.job.state, JobState::kFailed);
  EXPECT_EQ(story.job.reason, "keeper_lost");
}

Story QueuedJob(spec::Retries retries = {}) {
  Story story;
  spec::JobSpec asked;
  asked.project = "vision";
  asked.retries = std::move(retries);
  story.job.queued = true;
  story.job.state = JobState::kQueued;
  story.job.waiting_since = story.job.submitted_at = At(-10);
  story.job.spec = std::move(asked);
  return story;
}

TEST(Lifecycle, AnAttachedJobEndsWithItsRootAsTheTableSays) {
  struct Row {
    const char* what;
    std::optional<JobEvent> before;
    bool another_boot;
    JobState state;
    const char* reason;
  };
  const std::vector<Row> table{
      {"nobody tells how", {}, false, JobState::kFinished, "status_unknown"},
      {"the machine did", {}, true, JobState::kFailed, "reboot"},
      {"by the guard", GuardOrdered{kLimit}, false, JobState::kKilled, "memory_limit"},
      {"by its owner", CancelAsked{{"cancelled", "by lab1"}, At(1)}, false, JobState::kCancelled,
       "cancelled"},
      {"by removing", StopAsked{{"removed", ""}, true, At(1)}, false, JobState::kKilled, "removed"},
      {"by removing, then a reboot", StopAsked{{"removed", ""}, true, At(1)}, true, JobState::kKilled,
       "removed"},
  };
  for (const Row& row : table) {
    Story story;
    story.job.attached = true;
    story.job.state = JobState::kRunning;
    story.job.started_at = At(0);
    if (row.before) story.ApplyEvent(*row.before);
    story.ApplyEvent(RootEnded{row.another_boot, At(9)});
    EXPECT_EQ(story.job.state, row.state) << row.what;
    EXPECT_EQ(story.job.reason, row.reason) << row.what;
    EXPECT_EQ(story.job.ended_at, At(9)) << row.what;
    ASSERT_TRUE(story.last.run) << row.what;
    EXPECT_EQ(story.last.run->ran, base::Millis(9000)) << row.what;
    EXPECT_EQ(story.last.effects.size(), story.job.remove_when_ended ? 1 : 0) << row.what;
    story.ApplyEvent(RootEnded{false, At(10)});
    EXPECT_FALSE(story.last.changed) << "it has ended";
  }
  Story other;
  other.KeeperStarts().Runs().ApplyEvent(RootEnded{false, At(9)});
  EXPECT_EQ(other.job.state, JobState::kRunning) << "of a job that gpuman started nothing follows";
}

struct Answer {
  const char* what;
  JobState state;
  JobEvent event;
  JobState then;
};

TEST(Lifecycle, AWaitingJobFollowsItsTable) {
  const HoldAsked hold{{"held_by_user", "by lab1"}};
  const CancelAsked cancel{{"cancelled", "by lab1"}, At(1)};
  const StartOrdered start{{"GPU-a"}};
  const std::vector<Answer> table{
      {"is held", JobState::kQueued, hold, JobState::kHeld},
      {"is released", JobState::kHeld, ReleaseAsked{}, JobState::kQueued},
      {"is held already", JobState::kHeld, hold, JobState::kHeld},
      {"is not held", JobState::kQueued, ReleaseAsked{}, JobState::kQueued},
      {"starts", JobState::kQueued, start, JobState::kStarting},
      {"does not start while held", JobState::kHeld, start, JobState::kHeld},
      {"is cancelled", JobState::kQueued, cancel, JobState::kCancelled},
      {"is cancelled while held", JobState::kHeld, cancel, JobState::kCancelled},
      {"is removed", JobState::kHeld, StopAsked{{"removed", ""}, true, At(1)}, JobState::kCancelled},
      {"is no business of the guard", JobState::kQueued, GuardOrdered{kLimit}, JobState::kQueued},
      {"has nothing to end", JobState::kQueued, RequeueAsked{{"preempted", ""}}, JobState::kQueued},
  };
  for (const Answer& row : table) {
    Story story = QueuedJob();
    story.job.state = row.state;
    story.ApplyEvent(row.event);
    EXPECT_EQ(story.job.state, row.then) << row.what;
    EXPECT_EQ(story.last.changed, row.then != row.state) << row.what;
  }
}

TEST(Lifecycle, AJobStartsOnTheGpusItIsGiven) {
  Story story = QueuedJob();
  story.ApplyEvent(StartOrdered{{"GPU-a", "GPU-b"}});
  EXPECT_EQ(story.job.gpus, (std::vector<std::string>{"GPU-a", "GPU-b"}));
  EXPECT_EQ(story.last.effects, std::vector{Effect::kLaunch});
}

TEST(Lifecycle, AJobThatCouldNotBeStartedHasFailedUnlessItWasCancelledMeanwhile) {
  Story failed = QueuedJob(), cancelled = QueuedJob();
  failed.ApplyEvent(StartOrdered{{"GPU-a"}}).ApplyEvent(CannotStart{"no room", At(2)});
  EXPECT_EQ(failed.job.state, JobState::kFailed);
  EXPECT_EQ(failed.job.reason_detail, "no room");
  cancelled.ApplyEvent(StartOrdered{{"GPU-a"}}).ApplyEvent(CancelAsked{{"cancelled", "by lab1"}, At(1)});
  cancelled.ApplyEvent(CannotStart{"no room", At(2)});
  EXPECT_EQ(cancelled.job.state, JobState::kCancelled);
  EXPECT_EQ(cancelled.job.reason_detail, "by lab1");
  EXPECT_EQ(cancelled.kinds, "job_cancelled");
}

TEST(Lifecycle, ARunTookWhatItsKeeperMeasuredWhateverTheClockWasSetTo) {
  for (const int hours : {-1, 1}) {
    Story story = QueuedJob();
    story.ApplyEvent(StartOrdered{{"GPU-a"}}).KeeperStarts().Runs();
    RunEnded ended{1, EndKind::kExited, 0, false, base::Millis(60'000), {}, {}};
    story.ApplyEvent(RecordReceived{{3, At(3600 * hours), base::Millis(0), std::move(ended)}});
    ASSERT_TRUE(story.last.run);
    EXPECT_EQ(story.last.run->ran, base::Millis(60'000)) << hours;
  }
}

TEST(Lifecycle, ARunIsAccountedForOnce) {
  Story story = QueuedJob();
  story.ApplyEvent(StartOrdered{{"GPU-a", "GPU-b"}}).KeeperStarts().Runs();
  story.Write(keeper::ClockPauseChanged{true}).Write(keeper::ClockPauseChanged{false});  // at 3 and 4 s
  story.Write(RunEnded{1, EndKind::kExited, 3, false, base::Millis(3'000), {}, {}});
  ASSERT_TRUE(story.last.run);
  const RunAccount& run = *story.last.run;
  EXPECT_EQ(run.project, "vision");
  EXPECT_EQ(run.gpus.size(), 2U);
  EXPECT_EQ(run.waited, base::Millis(12'000)) << "from -10 s to 2 s";
  EXPECT_EQ(run.ran, base::Millis(2'000)) << "from 2 s to 5 s, of which one off the GPU";
  EXPECT_EQ(run.outcome, "failed");
  EXPECT_DOUBLE_EQ(run.GpuSeconds(), 4);
  story.Over();
  EXPECT_FALSE(story.last.run);
}

TEST(Lifecycle, AFailedRunIsRepeatedAsOftenAsWasAskedFor) {
  Story story = QueuedJob({1, base::Millis(5000), {}});
  story.ApplyEvent(StartOrdered{{"GPU-a"}}).KeeperStarts().Runs().Ends(EndKind::kExited, 3).Over();
  EXPECT_EQ(story.job.state, JobState::kQueued);
  EXPECT_EQ(story.job.attempts, 1);
  EXPECT_EQ(story.job.not_before, At(4) + base::Millis(5000));
  EXPECT_EQ(story.job.waiting_since, At(4));
  EXPECT_TRUE(story.job.gpus.empty());
  EXPECT_EQ(story.job.incarnation, 2);
  EXPECT_EQ(story.job.ended_at, std::nullopt);
  story.ApplyEvent(StartOrdered{{"GPU-b"}})
      .NewIncarnation()
      .KeeperStarts(70)
      .Runs()
      .Ends(EndKind::kExited, 3)
      .Over();
  EXPECT_EQ(story.job.state, JobState::kFailed);
  EXPECT_EQ(story.job.runs, 2);
  EXPECT_EQ(story.kinds, "job_started job_requeued job_restarted job_failed");
}

TEST(Lifecycle, ARunThatTheKernelEndedForHostMemoryIsRepeatedAsACrashIs) {
  Story story = QueuedJob({1, {}, {}});
  story.ApplyEvent(StartOrdered{{"GPU-a"}}).KeeperStarts().Runs();
  story.ApplyEvent(RecordReceived{
      {3, At(3), base::Millis(0), RunEnded{1, EndKind::kSignalled, 9, false, {}, {}, {}}}, kKernelKill});
  EXPECT_EQ(story.last.run->outcome, "failed");
  story.ApplyEvent(RecordReceived{{4, At(4), base::Millis(0), JobEnded{1, "finished"}}});
  EXPECT_EQ(story.job.state, JobState::kQueued);
  EXPECT_EQ(story.job.attempts, 1);
}

// A job with a limit of 8 GiB, whose last run was refused 512 MiB and has ended; the keeper has not told of
// the end of the job yet.
Story RefusedJob(spec::Retries retries = {}) {
  Story story = QueuedJob(std::move(retries));
  story.job.spec.Change([](spec::JobSpec& spec) {
    spec.memory = base::SizeSpec{base::GiB(8), 0};
    spec.memory_on_each = base::GiB(8);
  });
  story.ApplyEvent(StartOrdered{{"GPU-a"}}).KeeperStarts().Runs().Ends(EndKind::kExited, 1);
  story.job.more_memory = MoreMemory{base::GiB(8), base::MiB(512), base::GiB(16)};
  return story;
}

TEST(Lifecycle, AJobThatWasRefusedMemoryRunsOnceMoreWithMore) {
  Story story = RefusedJob({1, {}, {}});
  story.kinds.clear();
  story.Over();
  EXPECT_EQ(story.job.state, JobState::kQueued);
  EXPECT_EQ(story.job.spec->memory, (base::SizeSpec{base::GiB(16), 0}));
  EXPECT_EQ(story.job.spec->memory_on_each, base::GiB(16));
  EXPECT_EQ(story.job.attempts, 0) << "that is no retry of the user's";
  EXPECT_EQ(story.job.not_before, std::nullopt);
  EXPECT_EQ(story.job.reason, "memory_refused");
  EXPECT_EQ(story.job.reason_detail, "refused 512MiB at 8GiB; queued once more with 16GiB");
  ASSERT_EQ(story.kinds, "job_requeued");
  EXPECT_EQ(story.last.notices[0].message, *story.job.reason_detail);

  story.NewIncarnation().ApplyEvent(StartOrdered{{"GPU-a"}});
  story.KeeperStarts().Runs().Ends(EndKind::kExited, 1).Over();
  EXPECT_EQ(story.job.state, JobState::kQueued) << "a retry of the user's";
  EXPECT_EQ(story.job.attempts, 1);
  EXPECT_EQ(story.job.spec->memory_on_each, base::GiB(16)) << "it gets more once";
  story.NewIncarnation().ApplyEvent(StartOrdered{{"GPU-a"}});
  story.KeeperStarts().Runs().Ends(EndKind::kExited, 1).Over();
  EXPECT_EQ(story.job.state, JobState::kFailed);
  story.ApplyEvent(RestartAsked{{"restart", ""}, At(99)});
  EXPECT_FALSE(story.job.more_memory) << "another time it may get more again";
}

TEST(Lifecycle, AJobThatTheGuardEndedAtItsLimitRunsOnceMoreWithMore) {
  Story story = QueuedJob();
  story.ApplyEvent(StartOrdered{{"GPU-a"}}).KeeperStarts().Runs().ApplyEvent(GuardOrdered{kLimit});
  story.Write(StopOrdered{kLimit}).Ends(EndKind::kSignalled, 9, kLimit);
  story.job.more_memory = MoreMemory{base::MiB(512), {}, base::GiB(1)};
  story.Over("stopped");
  EXPECT_EQ(story.job.state, JobState::kQueued);
  EXPECT_EQ(story.job.reason_detail, "used more than its limit of 512MiB; queued once more with 1GiB");
}

TEST(Lifecycle, AJobThatWasCancelledGetsNoMoreMemory) {
  Story story = RefusedJob();
  story.ApplyEvent(CancelAsked{{"cancelled", "cancelled by lab1"}, At(9)}).Over();
  EXPECT_TRUE(IsEnded(story.job));
  EXPECT_EQ(story.job.spec->memory_on_each, base::GiB(8));
}

TEST(Lifecycle, OnlyTheExitStatusesThatWereNamedAreWorthARetry) {
  for (const auto& [code, state] : {std::pair{75, JobState::kQueued}, std::pair{3, JobState::kFailed},
                                    std::pair{0, JobState::kFinished}}) {
    Story story = QueuedJob({2, {}, {75}});
    story.ApplyEvent(StartOrdered{}).KeeperStarts().Runs().Ends(EndKind::kExited, code).Over();
    EXPECT_EQ(story.job.state, state) << code;
  }
}

TEST(Lifecycle, ARunThatWasEndedByOrderIsNotRetried) {
  for (const EndReason& reason : {EndReason{"time_limit", ""}, kLimit}) {
    Story story = QueuedJob({2, {}, {}});
    story.ApplyEvent(StartOrdered{})
        .KeeperStarts()
        .Runs()
        .Ends(EndKind::kSignalled, 15, reason)
        .Over("stopped");
    EXPECT_TRUE(IsEnded(story.job)) << reason.word;
  }
}

TEST(Lifecycle, AJobThatMadeRoomWaitsAgainAndThatCountsForNoRetry) {
  Story story = QueuedJob();
  const EndReason preempted{"preempted", "made room for job 9"};
  story.ApplyEvent(StartOrdered{{"GPU-a"}}).KeeperStarts().Runs().ApplyEvent(RequeueAsked{preempted});
  EXPECT_EQ(story.job.state, JobState::kStopping);
  EXPECT_EQ(story.last.effects, std::vector{Effect::kOrderStop});
  story.Write(StopOrdered{preempted}).Ends(EndKind::kSignalled, 15, preempted).Over("stopped");
  EXPECT_EQ(story.job.state, JobState::kQueued);
  EXPECT_EQ(story.job.attempts, 0);
  EXPECT_FALSE(story.job.stop_wanted || story.job.requeue_when_ended);
}

TEST(Lifecycle, AJobThatFinishedBeforeItCouldMakeRoomHasFinished) {
  Story story = QueuedJob();
  story.ApplyEvent(StartOrdered{{"GPU-a"}}).KeeperStarts().Runs().ApplyEvent(RequeueAsked{{"preempted", ""}});
  story.Ends(EndKind::kExited, 0).Over();
  EXPECT_EQ(story.job.state, JobState::kFinished);
}

TEST(Lifecycle, ACancelledJobDoesNotWaitAgainWhateverItWasEndedFor) {
  Story story = QueuedJob({5, {}, {}});
  const EndReason preempted{"preempted", "made room for job 9"};
  story.ApplyEvent(StartOrdered{{"GPU-a"}}).KeeperStarts().Runs().ApplyEvent(RequeueAsked{preempted});
  story.ApplyEvent(CancelAsked{{"cancelled", "cancelled by lab1"}, At(9)});
  story.Write(StopOrdered{preempted}).Ends(EndKind::kSignalled, 15, preempted).Over("stopped");
  EXPECT_EQ(story.job.state, JobState::kCancelled);
  EXPECT_EQ(story.job.reason, "cancelled");
}

TEST(Lifecycle, RestartingAnEndedJobOfTheQueueLetsItWaitAgain) {
  Story story = QueuedJob();
  story.ApplyEvent(StartOrdered{{"GPU-a"}}).KeeperStarts().Runs().Ends(EndKind::kExited, 1).Over();
  story.ApplyEvent(RestartAsked{{"restart", "by lab1"}, At(9)});
  EXPECT_EQ(story.job.state, JobState::kQueued);
  EXPECT_TRUE(story.last.effects.empty());
  EXPECT_EQ(story.job.incarnation, 2);
}

TEST(Lifecycle, AnEndThatWasOrderedKeepsItsReasonWhereTheRunEndedOnItsWay) {
  Story stopped;
  stopped.KeeperStarts().ApplyEvent(StopAsked{{"stopped", "by lab1"}, false, At(9)});
  stopped.Write(StopOrdered{{"stopped", "by lab1"}}).FailsToStart("killed").Over("stopped");
  EXPECT_EQ(stopped.job.state, JobState::kKilled);
  EXPECT_EQ(stopped.job.reason, "stopped");
  Story guarded;
  guarded.KeeperStarts().ApplyEvent(GuardOrdered{{"memory_limit", "600MiB of 512MiB"}});
  guarded.FailsToStart("killed").Over("start_failed");
  EXPECT_EQ(guarded.job.state, JobState::kKilled);
  EXPECT_EQ(guarded.job.reason, "memory_limit");
  Story alone;
  alone.KeeperStarts().FailsToStart("killed").Over("start_failed");
  EXPECT_EQ(alone.job.state, JobState::kFailed);
  EXPECT_EQ(alone.job.reason, "start_failed");
}

TEST(Lifecycle, AReasonThatTheKeeperRefusesIsTakenBack) {
  Story story;
  story.KeeperStarts().Runs().Ends(EndKind::kExited, 1).Write(RestartScheduled{2, base::Millis(1000), 1, {}});
  const Job before = story.job;
  ASSERT_EQ(before.state, JobState::kStarting);
  const EndReason late{"memory_limit", "600MiB of 512MiB"};
  story.ApplyEvent(GuardOrdered{late});
  EXPECT_EQ(story.job.state, JobState::kStopping);
  story.ApplyEvent(GuardOrderRefused{late, before.state, EndReason{*before.reason, *before.reason_detail}});
  EXPECT_EQ(story.job.state, JobState::kStarting);
  EXPECT_EQ(story.job.reason, before.reason);
  EXPECT_EQ(story.job.reason_detail, before.reason_detail);
  story.ApplyEvent(StopAsked{{"stopped", ""}, false, At(9)});
  story.ApplyEvent(GuardOrderRefused{late, before.state, {}});
  EXPECT_EQ(story.job.state, JobState::kStopping) << "for another reason";
}

TEST(AccountName, IsTheJobsOrTheArrays) {
  Job job;
  job.id = {7};
  job.tag = "train";
  EXPECT_EQ(AccountName(job), "train");
  job.tag = "sweep_3";
  EXPECT_EQ(AccountName(job), "sweep_3") << "it is in no array";
  job.array = {{5}, 3, 0};
  EXPECT_EQ(AccountName(job), "sweep");
}

TEST(AccountName, OfAJobWithoutANameIsThatOfItsProgram) {
  Job job;
  job.id = {7};
  job.tag = "job-7";
  for (const auto& [command, name] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"/opt/bin/serve", "--port", "1"}, "serve"},
           {{"python3", "-u", "src/train.py", "--lr", "0.1"}, "train.py"},
           {{"/usr/bin/python", "-m", "vllm.server", "x.py"}, "vllm.server"},
           {{"torchrun", "--nproc-per-node", "2", "ddp.py"}, "ddp.py"},
           {{"bash", "-c", "python a.py"}, "bash"},
           {{"python3"}, "python3"},
           {{}, ""}}) {
    job.command = command;
    EXPECT_EQ(AccountName(job), name);
  }
  job.command = {"python", "a.py"};
  job.array = {{5}, 3, 0};
  job.tag = "job-5_3";
  EXPECT_EQ(AccountName(job), "a.py");
  job.tag = "job-7";
  EXPECT_EQ(AccountName(job), "job-7") << "its user named it so";
  job.redo_of = {6};
  EXPECT_EQ(AccountName(job), "a.py") << "it was queued again, with the name that it had";
}

}  // namespace
}  // namespace gpuman::jobs
