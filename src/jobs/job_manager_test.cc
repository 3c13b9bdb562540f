// Tests start, end and settings: every answer must agree with what happened.
#include <gmock/gmock.h>

#include <csignal>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "jobs/test_job_manager.h"

namespace gpuman::jobs {
namespace {

using base::ErrorCode;

// The settings that the job's journal has, in order.
std::vector<std::string> SettingsIn(const std::filesystem::path& job_dir) {
  keeper::JobHistory history;
  const keeper::ParsedJournal journal = keeper::ReadJournal(job_dir).value();
  for (const auto& record : journal.records) keeper::Apply(history, record);
  return history.settings;
}

TEST_F(JobManagerTest, RunsACommandToItsEnd) {
  const JobId id = Started("t", "echo $GPUMAN_JOB_TAG on $CUDA_VISIBLE_DEVICES; exit 3");
  ASSERT_TRUE(Ends(id));
  const Job& job = *manager->Find(id);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.exit_code, 3);
  EXPECT_EQ(job.runs, 1);
  EXPECT_THAT(LogOf(id), ::testing::HasSubstr("t on GPU-a"));
  EXPECT_EQ(kinds, (std::vector<std::string>{"job_started", "job_failed"}));
  EXPECT_TRUE(errors.empty()) << errors.front();
}

TEST_F(JobManagerTest, AJobWaitsForWhatItNeedsBeforeItsStart) {
  std::function<void()> go;
  manager->callbacks().before_start = [&](const Job&, std::function<void()> then) { go = std::move(then); };
  const auto there = dir.path() / "there";
  const JobId id = Started("t", "test -e " + there.string());
  ASSERT_TRUE(go);
  EXPECT_EQ(manager->Find(id)->state, JobState::kStarting);
  std::ofstream(there) << "";
  go();
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->exit_code, 0);
  EXPECT_EQ(manager->Find(id)->runs, 1);
  ASSERT_TRUE(Removed(id));
  go();  // the job is not there any more
}

TEST_F(JobManagerTest, WhatAJobNeedsMayComeAfterTheDaemonsEnd) {
  std::function<void()> go;
  manager->callbacks().before_start = [&](const Job&, std::function<void()> then) { go = std::move(then); };
  const JobId id = Started("t", "true");
  RestartDaemon();
  go();
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->runs, 1);
}

TEST_F(JobManagerTest, TellsWhoWaitsForTheEnd) {
  const JobId id = Started("t", "read x < /dev/null; exit 0");
  std::optional<JobState> seen;
  manager->WaitForEnd(id, [&](const Job& job) { seen = job.state; });
  ASSERT_TRUE(Until([&] { return seen.has_value(); }));
  EXPECT_EQ(seen, JobState::kFinished);
  EXPECT_EQ(manager->WaitForEnd(id, [&](const Job&) { seen.reset(); }), 0U);
  EXPECT_FALSE(seen) << "called at once for a job that has ended";
}

TEST_F(JobManagerTest, AnEndIsOnDiskBeforeAnybodyHearsOfIt) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  std::optional<JobState> on_disk;
  const auto look = [&](const Job&) {
    auto beside = Store::Open(dir.path() / "gpuman.db");
    ASSERT_TRUE(beside) << beside.error().message;
    on_disk = (*beside)->Load(0)->jobs.at(0).state;
  };
  manager->WaitForEnd(id, look);
  ASSERT_TRUE(manager->Signal(id, SIGKILL));
  ASSERT_TRUE(Until([&] { return on_disk.has_value(); }));
  EXPECT_TRUE(IsEnded(*manager->Find(id)));
  EXPECT_EQ(on_disk, manager->Find(id)->state);
}

TEST_F(JobManagerTest, RefusesATagThatIsTakenUntilItsJobEnds) {
  const JobId id = Started("t", "exec sleep 1000");
  const auto twin = Create(Asked("t", "true"));
  ASSERT_FALSE(twin);
  EXPECT_EQ(twin.error().code, ErrorCode::kAlreadyExists);
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  ASSERT_TRUE(manager->Signal(id, SIGKILL));
  ASSERT_TRUE(Ends(id));
  EXPECT_TRUE(Create(Asked("t", "true")));
}

TEST_F(JobManagerTest, AnEndThatTheGuardAnnouncedHasItsReason) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  manager->Announce(id, {"memory_limit", "used 2 of 1"});
  ASSERT_TRUE(manager->Signal(id, SIGKILL));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->state, JobState::kKilled);
  EXPECT_EQ(manager->Find(id)->reason, "memory_limit");
  EXPECT_EQ(manager->Find(id)->reason_detail, "used 2 of 1");
  EXPECT_EQ(manager->Find(id)->signal, SIGKILL);
}

TEST_F(JobManagerTest, NobodyIsLookedForOnTheLoop) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  EXPECT_EQ(Reached(id, 0), 1u);
  EXPECT_EQ(Reached(id, SIGKILL), 1u);
  ASSERT_TRUE(Ends(id));
  EXPECT_GT(table.listings(), 0);
  EXPECT_FALSE(table.WasReadOn(std::this_thread::get_id()));
}

TEST_F(JobManagerTest, TheSignalsOfARunAreToldBeforeItsEnd) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  std::optional<std::size_t> kinds_before;
  table.Hold();
  ASSERT_TRUE(manager->Signal(id, SIGKILL, [&](const SignalOrderResult&) { kinds_before = kinds.size(); }));
  table.AwaitHeld();
  const auto kinds_then = kinds.size();
  (void)base::SendSignal(*manager->Find(id)->process, SIGKILL);  // its cgroup may have been killed already
  EXPECT_TRUE(Ends(id));
  table.Release();
  EXPECT_EQ(kinds_before, kinds_then);
}

TEST_F(JobManagerTest, AMissingCommandFailsWithItsName) {
  Job asked = Asked("t", "");
  asked.command = {"no-such-command-anywhere"};
  const auto job = Create(asked);
  ASSERT_TRUE(job);
  ASSERT_TRUE(Ends(job->id));
  EXPECT_EQ(manager->Find(job->id)->state, JobState::kFailed);
  EXPECT_EQ(manager->Find(job->id)->reason, "command_not_found");
  EXPECT_EQ(manager->Find(job->id)->exit_code, 127);
  EXPECT_THAT(*manager->Find(job->id)->reason_detail, ::testing::HasSubstr("no-such-command-anywhere"));
}

TEST_F(JobManagerTest, RemovingEndsTheJobAndDeletesItsFiles) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const pid_t pid = manager->Find(id)->process->pid;
  const auto log = manager->LogPathOf(id);
  const auto gone = Removed(id);
  ASSERT_TRUE(gone) << gone.error().message;
  EXPECT_EQ(gone->state, JobState::kKilled);
  EXPECT_EQ(gone->reason, "removed");
  EXPECT_EQ(manager->Find(id), nullptr);
  EXPECT_FALSE(base::IdentityOf(pid).has_value() && table.Find(pid)->state != 'Z');
  workers->join();
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "jobs" / std::to_string(id.value)));
  EXPECT_FALSE(std::filesystem::exists(log));
  RestartDaemon();
  EXPECT_TRUE(AllJobs(manager->index()).empty());
}

TEST_F(JobManagerTest, LettingGoKeepsTheCommandRunning) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const base::ProcessId process = *manager->Find(id)->process;
  const base::ProcessId keeper = *manager->Find(id)->keeper;
  std::optional<bool> released;
  manager->Release(id, [&](const auto& job) { released = job.has_value(); });
  ASSERT_TRUE(Until([&] { return released.has_value(); }));
  EXPECT_EQ(released, true);
  EXPECT_EQ(forgotten, std::vector{id});
  RestartDaemon();
  EXPECT_TRUE(AllJobs(manager->index()).empty());
  EXPECT_TRUE(base::IsAlive(process));
  EXPECT_TRUE(base::IsAlive(keeper));
  (void)base::SendSignal(process, SIGKILL);
}

TEST_F(JobManagerTest, RestartingARunningJobGivesItANewProcess) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const base::ProcessId before = *manager->Find(id)->process;
  std::optional<base::Result<Job>> answer;
  manager->Restart(id, {"restart", "by me"}, [&](auto job) { answer = job; });
  ASSERT_TRUE(Until([&] { return answer.has_value(); }));
  ASSERT_TRUE(*answer);
  EXPECT_EQ((*answer)->runs, 2) << "it is told of the new run, not of the one that is being ended";
  EXPECT_NE((*answer)->process, before);
  EXPECT_EQ(manager->Find(id)->restarts, 1);
}

TEST_F(JobManagerTest, ARestartOfAJobThatIsEndedInsteadIsAnswered) {
  const JobId id = StartedWithTrap("");
  manager->Update(
      id, [](Job& job) { job.spec.Change([](auto& spec) { spec.grace = base::Millis(3'600'000); }); },
      [](const auto&) {});
  std::optional<base::Result<Job>> answer;
  manager->Restart(id, {"restart", "by me"}, [&](auto job) { answer = job; });
  manager->Announce(id, {"memory_limit", "too much"});
  ASSERT_TRUE(manager->Signal(id, SIGKILL));
  ASSERT_TRUE(Until([&] { return answer.has_value(); }));
}

TEST_F(JobManagerTest, RestartingAnEndedJobRunsItAgain) {
  const JobId id = Started("t", "echo run; exit 1");
  ASSERT_TRUE(Ends(id));
  std::optional<base::Result<Job>> answer;
  manager->Restart(id, {"restart", "by me"}, [&](auto job) { answer = job; });
  ASSERT_TRUE(Until([&] { return manager->Find(id)->runs == 2 && IsEnded(*manager->Find(id)); }));
  ASSERT_TRUE(answer && *answer);
  EXPECT_EQ(LogOf(id), "run\nrun\n");
  EXPECT_EQ(manager->Find(id)->incarnation, 2);
}

TEST_F(JobManagerTest, ARestartPolicyIsFollowedAndCounted) {
  Job asked = Asked("t", "echo x >> out; [ $(wc -l < out) -ge 3 ]");
  asked.directory = dir.path().string();
  asked.spec.Change([](auto& spec) { spec.restart = spec::RestartMode::kOnFailure; });
  const auto job = Create(asked);
  ASSERT_TRUE(job);
  ASSERT_TRUE(Until([&] { return manager->Find(job->id)->state == JobState::kFinished; }));
  EXPECT_EQ(manager->Find(job->id)->runs, 3);
  EXPECT_EQ(manager->Find(job->id)->restarts, 2);
}

TEST_F(JobManagerTest, AFullDiskRefusesANewJobAndLeavesNothing) {
  full_switch->SetFull(true);
  Job asked = Asked("t", "true");
  asked.environment = Variables{{"BIG", std::string(100'000, 'x')}};
  const auto job = Create(asked);
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(AllJobs(manager->index()).empty());
  EXPECT_TRUE(Until([&] { return std::filesystem::is_empty(dir.path() / "jobs"); }));
}

TEST_F(JobManagerTest, ARemovalOfAJobThatTheDiskThenRefusesIsAnswered) {
  full_switch->SetFull(true);
  Job asked = Asked("t", "true");
  asked.environment = Variables{{"BIG", std::string(100'000, 'x')}};
  std::optional<base::Result<Job>> created, removed;
  manager->Create(asked, [&](auto answer) { created = std::move(answer); });
  const JobId id = AllJobs(manager->index()).front()->id;
  manager->Remove(id, {"removed", "by me"}, [&](auto answer) { removed = std::move(answer); });
  ASSERT_TRUE(Until([&] { return created && removed; }));
  EXPECT_FALSE(*created);
  EXPECT_EQ(removed->error().code, ErrorCode::kExhausted);
}

TEST_F(JobManagerTest, AFullDiskThatTakesNeitherDirectoryNorRecordRefusesTheJob) {
  // A file in place of the directory fails like a full disk, also for root.
  std::ofstream(dir.path() / "jobs" / "1") << "";
  full_switch->SetFull(true);
  Job asked = Asked("t", "true");
  asked.environment = Variables{{"BIG", std::string(100'000, 'x')}};
  EXPECT_FALSE(Create(asked));
  EXPECT_TRUE(AllJobs(manager->index()).empty());
  full_switch->SetFull(false);
  RestartDaemon();
  EXPECT_TRUE(AllJobs(manager->index()).empty()) << "what was refused must not come back";
  EXPECT_TRUE(Create(Asked("t", "true")));
}

TEST_F(JobManagerTest, AMissingKeeperProgramFailsTheJobClearly) {
  keeper_program = "/nowhere/gpuman-keeper";
  RestartDaemon();
  const auto job = Create(Asked("t", "true"));
  ASSERT_TRUE(job);
  ASSERT_TRUE(Ends(job->id));
  EXPECT_EQ(manager->Find(job->id)->state, JobState::kFailed);
  EXPECT_EQ(manager->Find(job->id)->reason, "start_failed");
}

TEST_F(JobManagerTest, ChangedSettingsReachTheKeeperAndTheDisk) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  std::optional<bool> stored;
  manager->Update(
      id,
      [](Job& job) {
        job.spec.Change([](auto& spec) { spec.priority = 9, spec.restart = spec::RestartMode::kAlways; });
      },
      [&](const auto& job) { stored = job.has_value(); });
  ASSERT_TRUE(Until([&] { return stored.has_value(); }));
  RestartDaemon();
  EXPECT_EQ(manager->Find(id)->spec->priority, 9);
  ASSERT_TRUE(Until([&] { return manager->Find(id)->journal_seq > 2; })) << "settings_changed is in there";
  (void)manager->Signal(id, SIGKILL);
  ASSERT_TRUE(Until([&] { return manager->Find(id)->runs == 2; })) << "the new policy holds";
  EXPECT_TRUE(Removed(id));
}

TEST_F(JobManagerTest, AJobOfManyRecordsHasAShortJournal) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const auto journal = [&] { return keeper::ReadJournal(dir.path() / "jobs" / "1")->records; };
  for (int i = 0; i < 1000; ++i) {
    const auto before = manager->Find(id)->journal_seq;
    manager->SetOffGpu(id, i % 2 == 0);
    ASSERT_TRUE(Until([&] { return manager->Find(id)->journal_seq > before; }));
  }
  ASSERT_TRUE(Until([&] { return journal().size() < 200; }));
  RestartDaemon();
  EXPECT_EQ(manager->Find(id)->state, JobState::kRunning);
  EXPECT_EQ(manager->Find(id)->runs, 1);
  (void)manager->Signal(id, SIGKILL);
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->signal, SIGKILL);
  EXPECT_TRUE(errors.empty()) << errors.front();
}

TEST_F(JobManagerTest, AKillTakesOneRunAndLeavesTheNextAlone) {
  Job asked = Asked("t", "exec sleep 1000");
  asked.spec.Change([](auto& spec) { spec.restart = spec::RestartMode::kAlways; });
  const JobId id = Create(std::move(asked))->id;
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  for (int kills = 1; kills <= 3; ++kills) {
    (void)manager->Signal(id, SIGKILL);
    ASSERT_TRUE(Until([&] { return manager->Find(id)->runs > kills; }));
    EXPECT_EQ(manager->Find(id)->runs, kills + 1);
    EXPECT_EQ(accounts.size(), static_cast<std::size_t>(kills));
  }
}

// A stopped keeper takes orders and answers none until it continues.
class OrdersWaitForTheirAnswer : public JobManagerTest {
 protected:
  void Signal(JobId id, int signal) { ASSERT_TRUE(base::SendSignal(*manager->Find(id)->keeper, signal)); }
  // Runs the loop until it has nothing to do.
  void Settle() {
    loop->restart();
    while (loop->poll() > 0) {
    }
  }
  JobId Running(const std::string& script) {
    const JobId id = Started("t", script);
    EXPECT_TRUE(Becomes(id, JobState::kRunning));
    return id;
  }
  // Changes the settings and waits until they are on the disk.
  void Update(JobId id, const std::function<void(Job&)>& change) {
    std::optional<bool> stored;
    manager->Update(id, change, [&](const auto& job) { stored = job.has_value(); });
    ASSERT_TRUE(Until([&] { return stored.has_value(); }));
    ASSERT_TRUE(*stored);
  }
};

TEST_F(OrdersWaitForTheirAnswer, ARestartIsDoneWhenTheKeeperSaysSo) {
  const JobId id = Running("exec sleep 1000");
  Signal(id, SIGSTOP);
  std::optional<base::Result<Job>> answer;
  manager->Restart(id, {"restart", "by me"}, [&](auto job) { answer = std::move(job); });
  Settle();
  EXPECT_FALSE(answer);
  Signal(id, SIGCONT);
  ASSERT_TRUE(Until([&] { return answer.has_value(); }));
  EXPECT_TRUE(*answer);
  ASSERT_TRUE(Until([&] { return manager->Find(id)->runs == 2; }));
}

TEST_F(OrdersWaitForTheirAnswer, ARestartThatNoKeeperTookIsAnError) {
  const JobId id = Running("exec sleep 1000");
  Signal(id, SIGSTOP);
  std::optional<base::Result<Job>> answer;
  manager->Restart(id, {"restart", "by me"}, [&](auto job) { answer = std::move(job); });
  Signal(id, SIGKILL);
  ASSERT_TRUE(Until([&] { return answer.has_value(); }));
  ASSERT_FALSE(*answer);
  EXPECT_EQ(answer->error().code, ErrorCode::kUnavailable);
  ASSERT_TRUE(Ends(id));
}

TEST_F(OrdersWaitForTheirAnswer, AJobIsLetGoWhenItsKeeperKnows) {
  const JobId id = Running("exec sleep 1000");
  Signal(id, SIGSTOP);
  std::optional<base::Result<Job>> answer;
  manager->Release(id, [&](auto job) { answer = std::move(job); });
  Settle();
  EXPECT_FALSE(answer);
  ASSERT_TRUE(manager->Find(id));
  Signal(id, SIGKILL);
  ASSERT_TRUE(Until([&] { return answer.has_value(); }));
  EXPECT_FALSE(*answer);
  ASSERT_TRUE(Ends(id)) << "it is gpuman's still";
  RestartDaemon();
  EXPECT_TRUE(manager->Find(id));
}

TEST_F(OrdersWaitForTheirAnswer, AJobWhoseReleaseWasNotStoredKeepsItsRestartPolicy) {
  Job asked = Asked("t", "exec sleep 1000");
  asked.spec.Change([](auto& spec) { spec.restart = spec::RestartMode::kAlways; });
  const JobId id = Create(std::move(asked))->id;
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const auto changes = [&] {
    const auto records = keeper::ReadJournal(dir.path() / "jobs" / "1")->records;
    return std::count_if(records.begin(), records.end(), [](const keeper::JournalRecord& record) {
      return std::holds_alternative<keeper::JobSettingsChanged>(record.body);
    });
  };
  // The keeper was told, and the daemon was killed before the store was.
  auto connection = keeper::KeeperConnection::Connect(dir.path() / "jobs" / "1").value();
  keeper::UpdateSettings none;
  none.restart = keeper::RestartPolicy{.mode = spec::RestartMode::kNo};
  ASSERT_TRUE(connection.Send(none));
  ASSERT_TRUE(Until([&] { return changes() == 1; }));
  RestartDaemon();
  ASSERT_TRUE(Until([&] { return changes() == 2; })) << "it is told what holds";
  const auto settings = SettingsIn(dir.path() / "jobs" / "1");
  EXPECT_EQ(keeper::ParseSettings(settings.back())->restart->mode, spec::RestartMode::kAlways);
}

TEST_F(OrdersWaitForTheirAnswer, SettingsThatAnOlderKeeperWroteInAnotherOrderAreNotSentAgain) {
  const JobId id = Running("exec sleep 1000");
  const auto journal_dir = dir.path() / "jobs" / "1";
  const auto settings = [&] { return SettingsIn(journal_dir); };
  const auto change_grace = [&](int millis) {
    Update(id, [millis](Job& job) {
      job.spec.Change([millis](auto& spec) { spec.grace = base::Millis(millis); });
    });
  };
  change_grace(1500);
  ASSERT_TRUE(Until([&] { return settings().size() == 1 && manager->Find(id)->journal_seq >= 3; }));
  StopDaemon();
  std::string lines;
  keeper::ParsedJournal content = keeper::ReadJournal(journal_dir).value();
  for (keeper::JournalRecord& record : content.records) {
    if (auto* const changed = std::get_if<keeper::JobSettingsChanged>(&record.body)) {
      const auto by_name = nlohmann::json::parse(changed->settings);  // sorted
      ASSERT_NE(by_name.dump(), changed->settings);
      changed->settings = by_name.dump();
    }
    lines += keeper::EncodeLine(record);
  }
  {
    std::fstream file(journal_dir / "journal", std::ios::in | std::ios::out);
    ASSERT_TRUE(file.is_open());
    file << lines;
  }
  RestartDaemon();
  change_grace(2500);
  ASSERT_TRUE(
      Until([&] { return keeper::ParseSettings(settings().back())->stop_grace == base::Millis(2500); }));
  EXPECT_EQ(settings().size(), 2U) << "what held was not sent once more";
}

TEST_F(OrdersWaitForTheirAnswer, SettingsThatAreChangedBackReachTheKeeperToo) {
  const JobId id = Running("exec sleep 1000");
  Update(id, [](Job& job) { job.spec.Change([](auto& spec) { spec.grace = base::Millis(1500); }); });
  ASSERT_TRUE(Until([&] { return manager->Find(id)->journal_seq >= 3; }));
  Signal(id, SIGSTOP);
  Update(id,
         [](Job& job) { job.spec.Change([](auto& spec) { spec.restart = spec::RestartMode::kAlways; }); });
  Update(id, [](Job& job) { job.spec.Change([](auto& spec) { spec.restart = spec::RestartMode::kNo; }); });
  Signal(id, SIGCONT);
  ASSERT_TRUE(Until([&] { return manager->Find(id)->journal_seq >= 5; }));
  (void)manager->Signal(id, SIGKILL);
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->runs, 1);
}

TEST_F(OrdersWaitForTheirAnswer, AClockThatIsStoppedMeanwhileStandsWhenTheKeeperIsBack) {
  const JobId id = Running("exec sleep 1000");
  Signal(id, SIGSTOP);
  off_gpu = {id};
  manager->SetOffGpu(id, true);
  RestartDaemon();
  ASSERT_TRUE(base::SendSignal(*manager->Find(id)->keeper, SIGCONT));
  ASSERT_TRUE(Until([&] { return manager->Find(id)->off_since.has_value(); }));
  EXPECT_TRUE(errors.empty()) << errors.front();
}

// Accounts so large that a full disk refuses them.
class LargeAccounts : public JobManagerTest {
 protected:
  void Register(JobManagerCallbacks& callbacks) override {
    JobManagerTest::Register(callbacks);
    callbacks.on_run_ended = [this](const Job&, RunAccount& run) {
      run.project = std::string(1'000'000, 'x');
      ++ended;
    };
  }
  std::size_t Stored() {
    std::promise<std::size_t> count;
    store->Read([&](Store& read) {
      std::size_t runs = 0;
      EXPECT_TRUE(read.EachRun({}, base::WallTime::max(), [&](const RunAccount&) { ++runs; }));
      count.set_value(runs);
    });
    return count.get_future().get();
  }
  std::size_t ended = 0;
};

TEST_F(LargeAccounts, AnAccountThatTheDiskDidNotTakeGoesWithTheNextRecord) {
  Job asked = Asked("t", "exec sleep 1000");
  asked.spec.Change([](auto& spec) { spec.restart = spec::RestartMode::kAlways; });
  const JobId id = Create(std::move(asked))->id;
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  full_switch->SetFull(true);
  (void)manager->Signal(id, SIGKILL);
  ASSERT_TRUE(Until([&] { return !errors.empty() && manager->Find(id)->runs > 1; }));
  full_switch->SetFull(false);
  // The store refuses until the daemon knows of the last refusal.
  std::optional<bool> stored;
  do {
    stored.reset();
    manager->Update(
        id, [](Job& job) { job.spec.Change([](auto& spec) { ++spec.priority; }); },
        [&](const auto& job) { stored = job.has_value(); });
    ASSERT_TRUE(Until([&] { return stored.has_value(); }));
  } while (!*stored);
  RestartDaemon();  // before it would try again
  EXPECT_EQ(Stored(), ended);
}

TEST_F(JobManagerTest, AClockSetBackDoesNotMakeNewJobsTheOldest) {
  keep_ended = 2;
  RestartDaemon();
  const JobId first = Started("a", "true");
  const JobId second = Started("b", "true");
  ASSERT_TRUE(Ends(first) && Ends(second));
  StopDaemon();
  {
    auto opened = Store::Open(dir.path() / "gpuman.db");
    ASSERT_TRUE(opened);
    Batch batch;
    batch.put = (*opened)->Load(0)->jobs;
    for (Job& job : batch.put) *job.ended_at += std::chrono::hours(24);
    ASSERT_TRUE((*opened)->Write(batch));
  }
  StartDaemon();
  const JobId third = Started("c", "true");
  ASSERT_TRUE(Ends(third));
  const JobId fourth = Started("d", "exec sleep 1000");
  ASSERT_TRUE(Until([&] { return !manager->Find(first); }));
  EXPECT_TRUE(manager->Find(second) && manager->Find(third) && manager->Find(fourth));
}

TEST_F(JobManagerTest, FindsJobsByTagAndById) {
  const JobId first = Started("t", "exit 0");
  ASSERT_TRUE(Ends(first));
  const JobId second = Started("t", "exec sleep 1000");
  EXPECT_EQ(*manager->index().Resolve("t"), second);
  EXPECT_EQ(*manager->index().Resolve(std::to_string(first.value)), first);
  EXPECT_EQ(manager->index().Resolve("nobody").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpuman::jobs
