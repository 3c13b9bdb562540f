// Kills a daemon, a keeper or a process that starts a keeper: nothing is lost, nothing runs twice, and
// nothing runs on unwatched.
#include <fmt/format.h>

#include <csignal>
#include <fstream>

#include "jobs/test_job_manager.h"

namespace gpuman::jobs {
namespace {

using base::ErrorCode;

TEST_F(JobManagerTest, ADaemonThatComesBackGoesOnWithARunningJob) {
  const JobId id = StartedWithTrap("exit 5");
  const base::ProcessId process = *manager->Find(id)->process;
  RestartDaemon();
  ASSERT_NE(manager->Find(id), nullptr);
  EXPECT_EQ(manager->Find(id)->state, JobState::kRunning);
  EXPECT_EQ(manager->Find(id)->process, process);
  ASSERT_TRUE(base::SendSignal(process, SIGTERM));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->exit_code, 5);
  EXPECT_EQ(manager->Find(id)->runs, 1);
}

TEST_F(JobManagerTest, ADaemonThatComesBackLearnsTheEndItMissed) {
  const JobId id = Started("t", "until [ -e go ]; do sleep 0.02; done; exit 4");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const base::ProcessId keeper = *manager->Find(id)->keeper;
  // The command waits in "/", so the test kills its process instead of making a file.
  const base::ProcessId process = *manager->Find(id)->process;
  StopDaemon();
  ASSERT_TRUE(base::SendSignal(process, SIGKILL));
  while (base::IsAlive(keeper)) ::usleep(1000);
  StartDaemon();
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->state, JobState::kFailed);
  EXPECT_EQ(manager->Find(id)->signal, SIGKILL);
  EXPECT_EQ(manager->Find(id)->reason, "signal");
}

TEST_F(JobManagerTest, ACommittedJobThatWasNeverStartedIsStarted) {
  StopDaemon();
  {
    auto opened = Store::Open(dir.path() / "gpuman.db");
    ASSERT_TRUE(opened);
    Job job = Asked("t", "echo late");
    job.id = {3};
    Batch batch;
    batch.put = {job};
    ASSERT_TRUE((*opened)->Write(batch));
  }
  StartDaemon();
  ASSERT_TRUE(Ends({3}));
  EXPECT_EQ(manager->Find({3})->state, JobState::kFinished);
  EXPECT_EQ(LogOf({3}), "late\n");
}

TEST_F(JobManagerTest, APreparedDirectoryWithoutACommittedJobIsNotRun) {
  const auto orphan = dir.path() / "jobs" / "1";
  keeper::Spec spec = PlanLaunch(Asked("wrong", "echo wrong"), {});
  spec.job_id = 1;
  spec.log.path = dir.path() / "logs" / "1.log";
  ASSERT_TRUE(keeper::PrepareJob(orphan, spec));
  RestartDaemon();
  EXPECT_FALSE(std::filesystem::exists(orphan));
  const JobId id = Started("right", "echo right");
  EXPECT_EQ(id.value, 1);
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(LogOf(id), "right\n");
}

TEST_F(JobManagerTest, AKilledKeeperLosesTheStatusButNoProcess) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const base::ProcessId process = *manager->Find(id)->process;
  ASSERT_TRUE(base::SendSignal(*manager->Find(id)->keeper, SIGKILL));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->state, JobState::kFailed);
  EXPECT_EQ(manager->Find(id)->reason, "keeper_lost");
  EXPECT_EQ(manager->Find(id)->exit_code, std::nullopt);
  EXPECT_FALSE(base::IsAlive(process)) << "nothing of it may go on unwatched";
}

TEST_F(JobManagerTest, AKilledKeeperIsReplacedByTheRestartPolicy) {
  Job asked = Asked("t", "exec sleep 1000");
  asked.spec.Change([](auto& spec) { spec.restart = spec::RestartMode::kAlways; });
  const auto job = Create(asked);
  ASSERT_TRUE(job);
  ASSERT_TRUE(Becomes(job->id, JobState::kRunning));
  ASSERT_TRUE(base::SendSignal(*manager->Find(job->id)->keeper, SIGKILL));
  ASSERT_TRUE(Until([&] { return manager->Find(job->id)->runs == 2; }));
  EXPECT_TRUE(Removed(job->id));
}

TEST_F(JobManagerTest, ASuccessorThatCannotBeStartedIsTriedAgain) {
  const auto broken = dir.path() / "broken";
  WrapKeeper(fmt::format("[ -e {} ] && echo broken >&2 && exit 1\nexec \"$KEEPER\" \"$@\"", broken.string()));
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  std::ofstream(broken) << "";
  ASSERT_TRUE(base::SendSignal(*manager->Find(id)->keeper, SIGKILL));
  ASSERT_TRUE(Until([&] { return !errors.empty(); }));
  EXPECT_FALSE(IsEnded(*manager->Find(id))) << "nobody knows yet what became of it";
  std::filesystem::remove(broken);
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->reason, "keeper_lost");
}

TEST_F(JobManagerTest, ARunningJobWhoseDirectoryCannotBeReadForAWhileIsFoundAgain) {
  const JobId id = StartedWithTrap("exit 5");
  const auto job_dir = dir.path() / "jobs" / "1", aside = dir.path() / "aside";
  StopDaemon();
  std::filesystem::rename(job_dir, aside);
  std::ofstream(job_dir) << "";
  StartDaemon();
  ASSERT_TRUE(Until([&] { return !errors.empty(); }));
  EXPECT_EQ(manager->Find(id)->state, JobState::kRunning) << "it does";
  std::filesystem::remove(job_dir);
  std::filesystem::rename(aside, job_dir);
  ASSERT_TRUE(base::SendSignal(*manager->Find(id)->process, SIGTERM));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->exit_code, 5);
}

// A job that restarts whenever it ends.
class DamageTest : public JobManagerTest {
 protected:
  JobId Begin() {
    Job asked = Asked("train", "echo ran; trap 'exit 5' TERM; while :; do sleep 0.05; done");
    asked.spec.Change([](auto& spec) { spec.restart = spec::RestartMode::kAlways; });
    const auto job = Create(asked);
    EXPECT_TRUE(job && Until([&] { return LogOf(job->id) == "ran\n"; }) &&
                Becomes(job->id, JobState::kRunning));
    return job->id;
  }
  void Damage(const char* file) {
    const auto path = dir.path() / "jobs" / "1" / file;
    auto text = base::ReadFile(path).value();
    text[12] ^= 1;
    ASSERT_TRUE(base::ReplaceFile(path, text, 0600));
  }
  // Returns the detail of the job's end.
  std::string Detail(JobId id) {
    EXPECT_TRUE(Ends(id));
    const Job& job = *manager->Find(id);
    EXPECT_EQ(job.state, JobState::kFailed);
    EXPECT_EQ(job.reason, "keeper_lost");
    EXPECT_EQ(job.runs, 1);
    EXPECT_EQ(LogOf(id), "ran\n");
    return job.reason_detail.value_or("");
  }
  std::string PathOf(const char* file) { return (dir.path() / "jobs" / "1" / file).string(); }
};

TEST_F(DamageTest, DamagedJournalOfDeadKeeperEndsTheJob) {
  const JobId id = Begin();
  const Job before = *manager->Find(id);
  StopDaemon();
  ASSERT_TRUE(base::SendSignal(*before.keeper, SIGKILL));
  EXPECT_TRUE(IsGoneSoon(*before.keeper));
  ASSERT_NO_FATAL_FAILURE(Damage("journal"));
  StartDaemon();
  EXPECT_EQ(Detail(id), "line 1 of " + PathOf("journal") +
                            " is damaged; the command was not run again, and what was left of it was ended; "
                            "gpuman restart train starts it again");
  EXPECT_FALSE(base::IsAlive(*before.process));
  EXPECT_EQ(accounts.size(), 1u);
  std::optional<base::Result<Job>> answer;
  manager->Restart(id, {"restart", "by me"}, [&](auto job) { answer = std::move(job); });
  ASSERT_TRUE(Until([&] { return answer && LogOf(id) == "ran\nran\n"; })) << "as it says";
}

TEST_F(DamageTest, DamagedSpecOfDeadKeeperEndsTheJob) {
  const JobId id = Begin();
  ASSERT_NO_FATAL_FAILURE(Damage("spec.json"));
  ASSERT_TRUE(base::SendSignal(*manager->Find(id)->keeper, SIGKILL));
  const auto said = Detail(id);
  EXPECT_NE(said.find(PathOf("spec.json")), std::string::npos) << said;
}

TEST_F(DamageTest, DamagedJournalOfLivingKeeperIsReportedAndEndsNothing) {
  const JobId id = Begin();
  StopDaemon();
  ASSERT_NO_FATAL_FAILURE(Damage("journal"));
  StartDaemon();
  ASSERT_TRUE(Until([&] { return !errors.empty(); }));
  EXPECT_EQ(errors.front(),
            "line 1 of " + PathOf("journal") + " is damaged; the job goes on as long as its keeper lives");
  EXPECT_EQ(manager->Find(id)->state, JobState::kRunning);
  EXPECT_TRUE(Removed(id));
}

TEST_F(DamageTest, MissingDirectoryStartsNoSecondRun) {
  const JobId id = Begin();
  const Job before = *manager->Find(id);
  StopDaemon();
  std::filesystem::remove_all(PathOf(""));
  StartDaemon();
  const auto said = Detail(id);
  EXPECT_NE(said.find("it ends with record 0"), std::string::npos) << said;
  EXPECT_TRUE(IsGoneSoon(*before.keeper));
  EXPECT_TRUE(IsGoneSoon(*before.process));
}

TEST_F(JobManagerTest, AnEndThatCannotBeReadForAWhileIsLearnedLater) {
  const auto trick = dir.path() / "trick";
  WrapKeeper(
      fmt::format("if [ -e {0} ]; then rm {0}; mv $2/journal $2/aside; mkdir $2/journal; exit 11; fi\n"
                  "[ -e $2/aside ] && rmdir $2/journal && mv $2/aside $2/journal\n"
                  "exec \"$KEEPER\" \"$@\"",
                  trick.string()));
  const JobId id = StartedWithTrap("exit 4");
  const Job before = *manager->Find(id);
  StopDaemon();
  ASSERT_TRUE(base::SendSignal(*before.process, SIGTERM));
  while (base::IsAlive(*before.keeper)) ::usleep(1000);
  std::ofstream(trick) << "";
  StartDaemon();
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->exit_code, 4);
  EXPECT_FALSE(std::filesystem::exists(trick));
}

TEST_F(JobManagerTest, AKeeperThatIsKilledBeforeItIsReadyIsStartedAgain) {
  const auto once = dir.path() / "once";
  WrapKeeper(
      fmt::format("[ -e {0} ] || {{ touch {0}; kill -9 $$; }}\nexec \"$KEEPER\" \"$@\"", once.string()));
  const JobId id = Started("t", "echo ran");
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->state, JobState::kFinished);
  EXPECT_EQ(LogOf(id), "ran\n");
}

TEST_F(JobManagerTest, AKeeperWhoseStarterIsKilledIsFoundAndItsCommandRunsOnce) {
  WrapKeeper("\"$KEEPER\" \"$@\"\nkill -9 $$");
  const JobId id = Started("t", "echo ran; exit 3");
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->exit_code, 3);
  EXPECT_EQ(LogOf(id), "ran\n");
}

TEST_F(JobManagerTest, AStopThatTheKeeperNeverHeardIsGivenAgain) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  StopDaemon();
  {
    auto opened = Store::Open(dir.path() / "gpuman.db");
    ASSERT_TRUE(opened);
    Batch batch;
    batch.put = {Apply((*opened)->Load(0)->jobs.at(0), StopAsked{{"removed", "by me"}, true}).job};
    ASSERT_TRUE((*opened)->Write(batch));
  }
  StartDaemon();
  ASSERT_TRUE(Until([&] { return manager->Find(id) == nullptr; }));
}

TEST_F(JobManagerTest, AStopThatTheKeeperHadNoRoomForIsGivenAgain) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const base::ProcessId keeper = *manager->Find(id)->keeper;
  ASSERT_TRUE(base::SendSignal(keeper, SIGSTOP));
  // More than fits into a socket.
  for (int i = 0; i < 4000; ++i) manager->Note(id, std::string(1000, 'x'));
  std::optional<base::Result<Job>> removed;
  manager->Remove(id, {"removed", "by me"}, [&](auto job) { removed = std::move(job); });
  ASSERT_TRUE(Until([&] { return manager->Find(id)->state == JobState::kStopping; }));
  ASSERT_TRUE(base::SendSignal(keeper, SIGCONT));
  ASSERT_TRUE(Until([&] { return removed.has_value(); }));
  EXPECT_TRUE(*removed);
}

TEST_F(JobManagerTest, AnEndThatTheGuardOrderedAndCouldNotCarryOutIsCarriedOut) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  manager->Announce(id, {"memory_limit", "used 2 of 1"});
  RestartDaemon();
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->state, JobState::kKilled);
  EXPECT_EQ(manager->Find(id)->reason, "memory_limit");
}

TEST_F(JobManagerTest, ADaemonThatComesBackTellsTheKeeperWhereTheJobIs) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const auto is_off = [&] { return manager->Find(id)->off_since.has_value(); };
  off_gpu = {id};
  RestartDaemon();
  ASSERT_TRUE(Until(is_off)) << "it left while nobody could be told: its time limit has to stand still";
  RestartDaemon();
  off_gpu.clear();
  ASSERT_TRUE(Until([&] { return !is_off(); })) << "it came back likewise";
}

// The keeper of a job does not start before Go.
class OrdersComeBeforeTheKeeper : public JobManagerTest {
 protected:
  void SetUp() override {
    JobManagerTest::SetUp();
    WrapKeeper(
        fmt::format("until [ -e {0} ]; do sleep 0.01; done\n"
                    "[ -e {1} ] && rm {1} && kill -9 $$\nexec \"$KEEPER\" \"$@\"",
                    go.string(), kill_first.string()));
  }
  void Go() { std::ofstream(go) << ""; }
  void KillTheFirst() { std::ofstream(kill_first) << ""; }
  void Restart(JobId id) {
    manager->Restart(id, {"restart", "by me"}, [this](auto job) { answer = std::move(job); });
  }
  void Release(JobId id) {
    manager->Release(id, [this](auto job) { answer = std::move(job); });
  }
  [[nodiscard]] bool Answered() {
    return Until([&] { return answer.has_value(); });
  }

  const std::filesystem::path go = dir.path() / "go", kill_first = dir.path() / "kill-first";
  std::optional<base::Result<Job>> answer;
};

TEST_F(OrdersComeBeforeTheKeeper, ARestartIsCarriedOutWhenTheRunHasBegun) {
  const JobId id = Started("t", "exec sleep 1000");
  Restart(id);
  EXPECT_FALSE(answer);
  Go();
  ASSERT_TRUE(Answered());
  ASSERT_TRUE(*answer) << answer->error().message;
  EXPECT_EQ((*answer)->runs, 2) << "the new run, not the one that was on its way";
  EXPECT_EQ((*answer)->state, JobState::kRunning);
}

TEST_F(OrdersComeBeforeTheKeeper, ARestartOutlivesAKeeperThatIsKilledOnItsWay) {
  KillTheFirst();
  const JobId id = Started("t", "exec sleep 1000");
  Restart(id);
  Go();
  ASSERT_TRUE(Answered());
  ASSERT_TRUE(*answer) << answer->error().message;
  EXPECT_EQ((*answer)->runs, 2);
}

TEST_F(OrdersComeBeforeTheKeeper, ARestartOfAJobThatIsRemovedMeanwhileIsRefused) {
  const JobId id = Started("t", "exec sleep 1000");
  Restart(id);
  manager->Remove(id, {"removed", "by me"}, [](const auto&) {});
  Go();
  ASSERT_TRUE(Answered());
  EXPECT_FALSE(*answer);
  ASSERT_TRUE(Until([&] { return !manager->Find(id); }));
}

TEST_F(OrdersComeBeforeTheKeeper, AJobIsLetGoWhenItsKeeperIsThere) {
  const JobId id = Started("t", "exec sleep 1000");
  Release(id);
  EXPECT_FALSE(answer);
  Go();
  ASSERT_TRUE(Answered());
  ASSERT_TRUE(*answer) << answer->error().message;
  EXPECT_EQ(forgotten, std::vector{id});
  ASSERT_TRUE((*answer)->process);
  EXPECT_TRUE(base::IsAlive(*(*answer)->process));
  (void)base::SendSignal(*(*answer)->process, SIGKILL);
}

TEST_F(OrdersComeBeforeTheKeeper, AnOrderThatADaemonDidNotLiveToCarryOutIsNotCarriedOut) {
  const JobId id = Started("t", "exec sleep 1000");
  Restart(id);
  Go();
  RestartDaemon();
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  EXPECT_FALSE(answer) << "nobody was told that it was done";
  EXPECT_EQ(manager->Find(id)->runs, 1);
}

TEST_F(JobManagerTest, AJobThatIsJustBeingForgottenIsNotStartedAgain) {
  const JobId id = Started("t", "exit 0");
  ASSERT_TRUE(Ends(id));
  keep_ended = 0;
  RestartDaemon();
  std::optional<base::Result<Job>> answer;
  manager->Restart(id, {"restart", "by me"}, [&](auto job) { answer = std::move(job); });
  ASSERT_TRUE(Until([&] { return answer && !manager->Find(id); }));
  EXPECT_EQ(answer->error().code, ErrorCode::kNotFound);
  RestartDaemon();
  EXPECT_TRUE(AllJobs(manager->index()).empty()) << "nobody was told that it runs";
}

}  // namespace
}  // namespace gpuman::jobs
