// The supervisor with real keepers and real commands: what a user is told must be what happened.
#include "jobs/supervisor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <set>

#include "base/file.h"
#include "base/temp_dir.h"

namespace gpuman::jobs {
namespace {

using base::ErrorCode;

constexpr std::chrono::seconds kPatience{30};

// A daemon's worth of parts over a state directory; Restart() is a daemon that was killed and started again.
class SupervisorTest : public ::testing::Test, public SupervisorHost {
 protected:
  void SetUp() override {
    const char* build = std::getenv("GPUMAN_BUILD_DIR");
    ASSERT_NE(build, nullptr) << "set by ctest";
    keeper_program = std::filesystem::path(build) / "bin" / "gpuman-keeper";
    ASSERT_TRUE(std::filesystem::exists(keeper_program)) << keeper_program;
    for (const char* name : {"jobs", "logs"}) ASSERT_TRUE(base::MakeDirectories(dir.path() / name));
    StartDaemon();
  }

  void TearDown() override {
    // One that is just being started would be left to itself.
    const auto starting = [](const Job* job) { return !IsEnded(*job) && !IsWaiting(*job) && !job->keeper; };
    (void)Until([&] {
      const auto jobs = supervisor->All();
      return std::none_of(jobs.begin(), jobs.end(), starting);
    });
    for (const Job* job : supervisor->All())
      if (job->keeper) (void)supervisor->Signal(job->id, SIGKILL);
    StopDaemon();
  }

  void StartDaemon() {
    loop = std::make_unique<boost::asio::io_context>();
    workers = std::make_unique<boost::asio::thread_pool>(2);
    auto opened = Store::Open(dir.path() / "gpuman.db");
    ASSERT_TRUE(opened) << opened.error().message;
    auto contents = (*opened)->Load(100);
    ASSERT_TRUE(contents);
    full_switch = opened->get();
    store = std::make_unique<StoreWorker>(std::move(*opened), [this](std::function<void()> task) {
      boost::asio::post(*loop, std::move(task));
    });
    SupervisorOptions options;
    options.keeper_program = keeper_program;
    options.jobs_dir = dir.path() / "jobs";
    options.keep_ended = keep_ended;
    options.launch.log_dir = dir.path() / "logs";
    options.launch.stop_grace = base::Millis(2000);
    options.launch.restart.initial_delay = base::Millis(1);
    supervisor =
        std::make_unique<Supervisor>(*loop, *workers, *store, clock, table, *this, std::move(options));
    supervisor->Adopt(*contents);
  }

  void StopDaemon() {
    supervisor.reset();
    workers->join();
    store.reset();
    loop.reset();
  }

  void RestartDaemon() {
    StopDaemon();
    StartDaemon();
  }

  // A daemon whose keepers are started by this script; $KEEPER is the real one.
  void WrapKeeper(const std::string& script) {
    const auto wrapper = dir.path() / "keeper";
    std::ofstream(wrapper) << "#!/bin/sh\nKEEPER=" << keeper_program.string() << "\n" << script << "\n";
    std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
    keeper_program = wrapper;
    RestartDaemon();
  }

  // Runs the loop until `done` holds.
  [[nodiscard]] bool Until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      loop->restart();
      loop->run_one_for(std::chrono::milliseconds(100));
    }
    return done();
  }

  Job Asked(const std::string& tag, const std::string& script) {
    Job job;
    job.tag = tag;
    job.owner = Owner{::getuid(), ::getgid(), {}, "me"};
    job.command = {"/bin/sh", "-c", script};
    job.directory = std::string("/");
    job.environment = Variables{{"PATH", "/usr/bin:/bin"}};
    return job;
  }

  // Creates the job and waits for the answer.
  base::Result<Job> Create(Job job) {
    std::optional<base::Result<Job>> answer;
    supervisor->Create(std::move(job), [&](base::Result<Job> created) { answer = std::move(created); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer ? *answer : base::Result<Job>(base::Fail(ErrorCode::kTimeout, "no answer"));
  }
  JobId Started(const std::string& tag, const std::string& script) {
    auto job = Create(Asked(tag, script));
    EXPECT_TRUE(job) << job.error().message;
    return job ? job->id : JobId{};
  }
  [[nodiscard]] bool Becomes(JobId id, JobState state) {
    return Until([&] { return supervisor->Find(id) && supervisor->Find(id)->state == state; });
  }
  [[nodiscard]] bool Ends(JobId id) {
    return Until([&] { return supervisor->Find(id) && IsEnded(*supervisor->Find(id)); });
  }
  base::Result<Job> Removed(JobId id) {
    std::optional<base::Result<Job>> answer;
    supervisor->Remove(id, {"removed", "by me"}, [&](auto job) { answer = job; });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return *answer;
  }
  std::string LogOf(JobId id) { return base::ReadFile(supervisor->LogPathOf(id)).value_or(""); }

  void OnJobChanged(const Job&, const Runtime&) override {}
  void OnJobForgotten(JobId job) override { forgotten.push_back(job); }
  void OnNotice(const Job&, const Notice& notice) override { kinds.push_back(notice.kind); }
  void OnRunEnded(const Job&, RunAccount& run) override { accounts.push_back(run); }
  bool IsNeeded(JobId) override { return false; }
  bool IsOffGpu(JobId job) override { return off_gpu.contains(job); }
  void OnTrouble(const Job&, const std::string& what) override { troubles.push_back(what); }
  std::optional<base::Bytes> PeakOf(JobId) override { return std::nullopt; }
  std::vector<std::string> AllGpus() override { return {"GPU-a"}; }

  base::TempDir dir;
  std::filesystem::path keeper_program;
  std::size_t keep_ended = 1000;
  base::SystemClock clock;
  base::ProcFs table;
  std::unique_ptr<boost::asio::io_context> loop;
  std::unique_ptr<boost::asio::thread_pool> workers;
  std::unique_ptr<StoreWorker> store;
  std::unique_ptr<Supervisor> supervisor;
  Store* full_switch = nullptr;
  std::vector<JobId> forgotten;
  std::vector<std::string> kinds;
  std::vector<std::string> troubles;
  std::vector<RunAccount> accounts;
  std::set<JobId> off_gpu;
};

TEST_F(SupervisorTest, RunsACommandToItsEnd) {
  const JobId id = Started("t", "echo $GPUMAN_JOB_TAG on $CUDA_VISIBLE_DEVICES; exit 3");
  ASSERT_TRUE(Ends(id));
  const Job& job = *supervisor->Find(id);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.exit_code, 3);
  EXPECT_EQ(job.runs, 1);
  EXPECT_THAT(LogOf(id), ::testing::HasSubstr("t on GPU-a"));
  EXPECT_EQ(kinds, (std::vector<std::string>{"job_started", "job_failed"}));
  EXPECT_TRUE(troubles.empty()) << troubles.front();
}

TEST_F(SupervisorTest, TellsWhoWaitsForTheEnd) {
  const JobId id = Started("t", "read x < /dev/null; exit 0");
  std::optional<JobState> seen;
  supervisor->WaitForEnd(id, [&](const Job& job) { seen = job.state; });
  ASSERT_TRUE(Until([&] { return seen.has_value(); }));
  EXPECT_EQ(seen, JobState::kFinished);
  EXPECT_EQ(supervisor->WaitForEnd(id, [&](const Job&) { seen.reset(); }), 0U);
  EXPECT_FALSE(seen) << "called at once for a job that has ended";
}

TEST_F(SupervisorTest, AnEndIsOnDiskBeforeAnybodyHearsOfIt) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  std::optional<JobState> on_disk;
  const auto look = [&](const Job&) {
    auto beside = Store::Open(dir.path() / "gpuman.db");
    ASSERT_TRUE(beside) << beside.error().message;
    on_disk = (*beside)->Load(0)->jobs.at(0).state;
  };
  supervisor->WaitForEnd(id, look);
  ASSERT_TRUE(supervisor->Signal(id, SIGKILL));
  ASSERT_TRUE(Until([&] { return on_disk.has_value(); }));
  EXPECT_TRUE(IsEnded(*supervisor->Find(id)));
  EXPECT_EQ(on_disk, supervisor->Find(id)->state);
}

TEST_F(SupervisorTest, RefusesATagThatIsTakenUntilItsJobEnds) {
  const JobId id = Started("t", "exec sleep 1000");
  const auto twin = Create(Asked("t", "true"));
  ASSERT_FALSE(twin);
  EXPECT_EQ(twin.error().code, ErrorCode::kAlreadyExists);
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  ASSERT_TRUE(supervisor->Signal(id, SIGKILL));
  ASSERT_TRUE(Ends(id));
  EXPECT_TRUE(Create(Asked("t", "true")));
}

TEST_F(SupervisorTest, AnEndThatTheGuardAnnouncedHasItsReason) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  supervisor->Announce(id, {"memory_limit", "used 2 of 1"});
  ASSERT_TRUE(supervisor->Signal(id, SIGKILL));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->state, JobState::kKilled);
  EXPECT_EQ(supervisor->Find(id)->reason, "memory_limit");
  EXPECT_EQ(supervisor->Find(id)->reason_detail, "used 2 of 1");
  EXPECT_EQ(supervisor->Find(id)->signal, SIGKILL);
}

TEST_F(SupervisorTest, AMissingCommandFailsWithItsName) {
  Job asked = Asked("t", "");
  asked.command = {"no-such-command-anywhere"};
  const auto job = Create(asked);
  ASSERT_TRUE(job);
  ASSERT_TRUE(Ends(job->id));
  EXPECT_EQ(supervisor->Find(job->id)->state, JobState::kFailed);
  EXPECT_EQ(supervisor->Find(job->id)->reason, "command_not_found");
  EXPECT_EQ(supervisor->Find(job->id)->exit_code, 127);
  EXPECT_THAT(*supervisor->Find(job->id)->reason_detail, ::testing::HasSubstr("no-such-command-anywhere"));
}

TEST_F(SupervisorTest, RemovingEndsTheJobAndDeletesItsFiles) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const pid_t pid = supervisor->Find(id)->process->pid;
  const auto log = supervisor->LogPathOf(id);
  const auto gone = Removed(id);
  ASSERT_TRUE(gone) << gone.error().message;
  EXPECT_EQ(gone->state, JobState::kKilled);
  EXPECT_EQ(gone->reason, "removed");
  EXPECT_EQ(supervisor->Find(id), nullptr);
  EXPECT_FALSE(base::IdentityOf(pid).has_value() && table.Find(pid)->state != 'Z');
  workers->join();
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "jobs" / std::to_string(id.value)));
  EXPECT_FALSE(std::filesystem::exists(log));
  RestartDaemon();
  EXPECT_TRUE(supervisor->All().empty());
}

TEST_F(SupervisorTest, LettingGoKeepsTheCommandRunning) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const base::ProcessId process = *supervisor->Find(id)->process;
  const base::ProcessId keeper = *supervisor->Find(id)->keeper;
  std::optional<bool> released;
  supervisor->Release(id, [&](const auto& job) { released = job.has_value(); });
  ASSERT_TRUE(Until([&] { return released.has_value(); }));
  EXPECT_EQ(released, true);
  EXPECT_EQ(forgotten, std::vector{id});
  RestartDaemon();
  EXPECT_TRUE(supervisor->All().empty());
  EXPECT_TRUE(base::IsAlive(process));
  EXPECT_TRUE(base::IsAlive(keeper));
  (void)base::SendSignal(process, SIGKILL);
}

TEST_F(SupervisorTest, RestartingARunningJobGivesItANewProcess) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const base::ProcessId before = *supervisor->Find(id)->process;
  std::optional<bool> accepted;
  supervisor->Restart(id, {"restart", "by me"}, [&](const auto& job) { accepted = job.has_value(); });
  ASSERT_TRUE(Until([&] { return supervisor->Find(id)->runs == 2; }));
  EXPECT_EQ(accepted, true);
  EXPECT_NE(supervisor->Find(id)->process, before);
  EXPECT_EQ(supervisor->Find(id)->restarts, 1);
}

TEST_F(SupervisorTest, RestartingAnEndedJobRunsItAgain) {
  const JobId id = Started("t", "echo run; exit 1");
  ASSERT_TRUE(Ends(id));
  std::optional<base::Result<Job>> answer;
  supervisor->Restart(id, {"restart", "by me"}, [&](auto job) { answer = job; });
  ASSERT_TRUE(Until([&] { return supervisor->Find(id)->runs == 2 && IsEnded(*supervisor->Find(id)); }));
  ASSERT_TRUE(answer && *answer);
  EXPECT_EQ(LogOf(id), "run\nrun\n");
  EXPECT_EQ(supervisor->Find(id)->incarnation, 2);
}

TEST_F(SupervisorTest, ARestartPolicyIsFollowedAndCounted) {
  Job asked = Asked("t", "echo x >> out; [ $(wc -l < out) -ge 3 ]");
  asked.directory = dir.path().string();
  asked.restart = RestartMode::kOnFailure;
  const auto job = Create(asked);
  ASSERT_TRUE(job);
  ASSERT_TRUE(Until([&] { return supervisor->Find(job->id)->state == JobState::kFinished; }));
  EXPECT_EQ(supervisor->Find(job->id)->runs, 3);
  EXPECT_EQ(supervisor->Find(job->id)->restarts, 2);
}

TEST_F(SupervisorTest, ADaemonThatComesBackGoesOnWithARunningJob) {
  const JobId id = Started("t", "trap 'exit 5' TERM; while :; do sleep 0.05; done");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const base::ProcessId process = *supervisor->Find(id)->process;
  RestartDaemon();
  ASSERT_NE(supervisor->Find(id), nullptr);
  EXPECT_EQ(supervisor->Find(id)->state, JobState::kRunning);
  EXPECT_EQ(supervisor->Find(id)->process, process);
  ASSERT_TRUE(base::SendSignal(process, SIGTERM));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->exit_code, 5);
  EXPECT_EQ(supervisor->Find(id)->runs, 1);
}

TEST_F(SupervisorTest, ADaemonThatComesBackLearnsTheEndItMissed) {
  const JobId id = Started("t", "until [ -e go ]; do sleep 0.02; done; exit 4");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const base::ProcessId keeper = *supervisor->Find(id)->keeper;
  // The command waits in "/", so its file is named by the process instead.
  const base::ProcessId process = *supervisor->Find(id)->process;
  StopDaemon();
  ASSERT_TRUE(base::SendSignal(process, SIGKILL));
  while (base::IsAlive(keeper)) ::usleep(1000);
  StartDaemon();
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->state, JobState::kFailed);
  EXPECT_EQ(supervisor->Find(id)->signal, SIGKILL);
  EXPECT_EQ(supervisor->Find(id)->reason, "signal");
}

TEST_F(SupervisorTest, ACommittedJobThatWasNeverStartedIsStarted) {
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
  EXPECT_EQ(supervisor->Find({3})->state, JobState::kFinished);
  EXPECT_EQ(LogOf({3}), "late\n");
}

TEST_F(SupervisorTest, APreparedDirectoryWithoutACommittedJobIsNotRun) {
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

TEST_F(SupervisorTest, AKilledKeeperLosesTheStatusButNoProcess) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const base::ProcessId process = *supervisor->Find(id)->process;
  ASSERT_TRUE(base::SendSignal(*supervisor->Find(id)->keeper, SIGKILL));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->state, JobState::kFailed);
  EXPECT_EQ(supervisor->Find(id)->reason, "keeper_lost");
  EXPECT_EQ(supervisor->Find(id)->exit_code, std::nullopt);
  EXPECT_FALSE(base::IsAlive(process)) << "nothing of it may go on unwatched";
}

TEST_F(SupervisorTest, AKilledKeeperIsReplacedByTheRestartPolicy) {
  Job asked = Asked("t", "exec sleep 1000");
  asked.restart = RestartMode::kAlways;
  const auto job = Create(asked);
  ASSERT_TRUE(job);
  ASSERT_TRUE(Becomes(job->id, JobState::kRunning));
  ASSERT_TRUE(base::SendSignal(*supervisor->Find(job->id)->keeper, SIGKILL));
  ASSERT_TRUE(Until([&] { return supervisor->Find(job->id)->runs == 2; }));
  EXPECT_TRUE(Removed(job->id));
}

TEST_F(SupervisorTest, ASuccessorThatCannotBeStartedIsTriedAgain) {
  const auto broken = dir.path() / "broken";
  WrapKeeper(fmt::format("[ -e {} ] && echo broken >&2 && exit 1\nexec \"$KEEPER\" \"$@\"", broken.string()));
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  std::ofstream(broken) << "";
  ASSERT_TRUE(base::SendSignal(*supervisor->Find(id)->keeper, SIGKILL));
  ASSERT_TRUE(Until([&] { return !troubles.empty(); }));
  EXPECT_FALSE(IsEnded(*supervisor->Find(id))) << "nobody knows yet what became of it";
  std::filesystem::remove(broken);
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->reason, "keeper_lost");
}

TEST_F(SupervisorTest, ARunningJobWhoseDirectoryCannotBeReadForAWhileIsFoundAgain) {
  const JobId id = Started("t", "trap 'exit 5' TERM; while :; do sleep 0.05; done");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const auto job_dir = dir.path() / "jobs" / "1", aside = dir.path() / "aside";
  StopDaemon();
  std::filesystem::rename(job_dir, aside);
  std::ofstream(job_dir) << "";
  StartDaemon();
  ASSERT_TRUE(Until([&] { return !troubles.empty(); }));
  EXPECT_EQ(supervisor->Find(id)->state, JobState::kRunning) << "it does";
  std::filesystem::remove(job_dir);
  std::filesystem::rename(aside, job_dir);
  ASSERT_TRUE(base::SendSignal(*supervisor->Find(id)->process, SIGTERM));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->exit_code, 5);
}

TEST_F(SupervisorTest, AnEndThatCannotBeReadForAWhileIsLearnedLater) {
  const auto trick = dir.path() / "trick";
  WrapKeeper(
      fmt::format("if [ -e {0} ]; then rm {0}; mv $2/journal $2/aside; mkdir $2/journal; exit 11; fi\n"
                  "[ -e $2/aside ] && rmdir $2/journal && mv $2/aside $2/journal\n"
                  "exec \"$KEEPER\" \"$@\"",
                  trick.string()));
  const JobId id = Started("t", "trap 'exit 4' TERM; while :; do sleep 0.05; done");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const Job before = *supervisor->Find(id);
  StopDaemon();
  ASSERT_TRUE(base::SendSignal(*before.process, SIGTERM));
  while (base::IsAlive(*before.keeper)) ::usleep(1000);
  std::ofstream(trick) << "";
  StartDaemon();
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->exit_code, 4);
  EXPECT_FALSE(std::filesystem::exists(trick));
}

TEST_F(SupervisorTest, AKeeperThatIsKilledBeforeItIsReadyIsStartedAgain) {
  const auto once = dir.path() / "once";
  WrapKeeper(
      fmt::format("[ -e {0} ] || {{ touch {0}; kill -9 $$; }}\nexec \"$KEEPER\" \"$@\"", once.string()));
  const JobId id = Started("t", "echo ran");
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->state, JobState::kFinished);
  EXPECT_EQ(LogOf(id), "ran\n");
}

TEST_F(SupervisorTest, AKeeperWhoseStarterIsKilledIsFoundAndItsCommandRunsOnce) {
  WrapKeeper("\"$KEEPER\" \"$@\"\nkill -9 $$");
  const JobId id = Started("t", "echo ran; exit 3");
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->exit_code, 3);
  EXPECT_EQ(LogOf(id), "ran\n");
}

TEST_F(SupervisorTest, AStopThatTheKeeperNeverHeardIsGivenAgain) {
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
  ASSERT_TRUE(Until([&] { return supervisor->Find(id) == nullptr; }));
}

TEST_F(SupervisorTest, AnEndThatTheGuardOrderedAndCouldNotCarryOutIsCarriedOut) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  supervisor->Announce(id, {"memory_limit", "used 2 of 1"});
  RestartDaemon();
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->state, JobState::kKilled);
  EXPECT_EQ(supervisor->Find(id)->reason, "memory_limit");
}

TEST_F(SupervisorTest, ADaemonThatComesBackTellsTheKeeperWhereTheJobIs) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const auto is_off = [&] { return supervisor->Find(id)->off_since.has_value(); };
  off_gpu = {id};
  RestartDaemon();
  ASSERT_TRUE(Until(is_off)) << "it left while nobody could be told: its time limit has to stand still";
  RestartDaemon();
  off_gpu.clear();
  ASSERT_TRUE(Until([&] { return !is_off(); })) << "it came back likewise";
}

TEST_F(SupervisorTest, AJobThatIsJustBeingForgottenIsNotStartedAgain) {
  const JobId id = Started("t", "exit 0");
  ASSERT_TRUE(Ends(id));
  keep_ended = 0;
  RestartDaemon();
  std::optional<base::Result<Job>> answer;
  supervisor->Restart(id, {"restart", "by me"}, [&](auto job) { answer = std::move(job); });
  ASSERT_TRUE(Until([&] { return answer && !supervisor->Find(id); }));
  EXPECT_EQ(answer->error().code, ErrorCode::kNotFound);
  RestartDaemon();
  EXPECT_TRUE(supervisor->All().empty()) << "nobody was told that it runs";
}

TEST_F(SupervisorTest, AFullDiskRefusesANewJobAndLeavesNothing) {
  full_switch->SetFull(true);
  Job asked = Asked("t", "true");
  asked.environment = Variables{{"BIG", std::string(100'000, 'x')}};
  const auto job = Create(asked);
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(supervisor->All().empty());
  EXPECT_TRUE(Until([&] { return std::filesystem::is_empty(dir.path() / "jobs"); }));
}

TEST_F(SupervisorTest, AFullDiskThatTakesNeitherDirectoryNorRecordRefusesTheJob) {
  // A file in the directory's place fails as a full disk would, for root too.
  std::ofstream(dir.path() / "jobs" / "1") << "";
  full_switch->SetFull(true);
  Job asked = Asked("t", "true");
  asked.environment = Variables{{"BIG", std::string(100'000, 'x')}};
  EXPECT_FALSE(Create(asked));
  EXPECT_TRUE(supervisor->All().empty());
  full_switch->SetFull(false);
  RestartDaemon();
  EXPECT_TRUE(supervisor->All().empty()) << "what was refused must not come back";
  EXPECT_TRUE(Create(Asked("t", "true")));
}

TEST_F(SupervisorTest, AMissingKeeperProgramFailsTheJobClearly) {
  keeper_program = "/nowhere/gpuman-keeper";
  RestartDaemon();
  const auto job = Create(Asked("t", "true"));
  ASSERT_TRUE(job);
  ASSERT_TRUE(Ends(job->id));
  EXPECT_EQ(supervisor->Find(job->id)->state, JobState::kFailed);
  EXPECT_EQ(supervisor->Find(job->id)->reason, "start_failed");
}

TEST_F(SupervisorTest, ChangedSettingsReachTheKeeperAndTheDisk) {
  const JobId id = Started("t", "exec sleep 1000");
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  std::optional<bool> stored;
  supervisor->Update(
      id, [](Job& job) { job.priority = 9, job.restart = RestartMode::kAlways; },
      [&](const auto& job) { stored = job.has_value(); });
  ASSERT_TRUE(Until([&] { return stored.has_value(); }));
  RestartDaemon();
  EXPECT_EQ(supervisor->Find(id)->priority, 9);
  ASSERT_TRUE(Until([&] { return supervisor->Find(id)->journal_seq > 2; })) << "settings_changed is in there";
  (void)supervisor->Signal(id, SIGKILL);
  // The next run may come so fast that the same kill finds it too.
  ASSERT_TRUE(Until([&] { return supervisor->Find(id)->runs >= 2; })) << "the new policy holds";
  EXPECT_TRUE(Removed(id));
}

TEST_F(SupervisorTest, AClockSetBackDoesNotMakeNewJobsTheOldest) {
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
  ASSERT_TRUE(Until([&] { return !supervisor->Find(first); }));
  EXPECT_TRUE(supervisor->Find(second) && supervisor->Find(third) && supervisor->Find(fourth));
}

// A process with a child, of which the supervisor is not the parent's parent: as a step of somebody else's.
class AttachedJobs : public SupervisorTest {
 protected:
  // `script` runs below the root; "$$" of it is written to the file `child`.
  base::ProcessId Root(const std::string& script) {
    root_ = ::fork();
    if (root_ == 0) {
      const std::string text = "sh -c 'echo $$ > " + Child().string() + "; " + script + "' & wait";
      ::execl("/bin/sh", "sh", "-c", text.c_str(), nullptr);
      ::_exit(127);
    }
    EXPECT_TRUE(Until([&] { return !base::ReadFile(Child()).value_or("").empty(); }));
    return base::IdentityOf(root_).value();
  }
  void TearDown() override {
    SupervisorTest::TearDown();
    EndRoot();
    if (ChildLives()) ::kill(std::atoi(base::ReadFile(Child())->c_str()), SIGKILL);
  }
  void EndRoot() {
    if (root_ <= 0) return;
    ::kill(root_, SIGKILL);
    ::waitpid(std::exchange(root_, 0), nullptr, 0);
  }
  base::Result<Job> Attach(const std::string& tag, base::ProcessId root, const std::string& command = "") {
    std::optional<base::Result<Job>> answer;
    Job job = Asked(tag, command);
    supervisor->Attach(std::move(job), root,
                       [&](base::Result<Job> attached) { answer = std::move(attached); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer ? *answer : base::Result<Job>(base::Fail(ErrorCode::kTimeout, "no answer"));
  }
  bool ChildLives() {
    const auto child = table.Find(std::atoi(base::ReadFile(Child()).value_or("0").c_str()));
    return child && child->state != 'Z';
  }
  std::filesystem::path Child() { return dir.path() / "child"; }

  pid_t root_ = 0;
};

TEST_F(AttachedJobs, RunUntilTheirRootHasEnded) {
  const auto root = Root("exec sleep 1000");
  const auto job = Attach("step", root);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->state, JobState::kRunning);
  const auto environment = supervisor->AttachedEnvironment(*job);
  EXPECT_THAT(environment, testing::Contains("GPUMAN_JOB_ID=" + std::to_string(job->id.value)));
  EXPECT_THAT(environment, testing::Contains(testing::StartsWith("GPUMAN_JOB_KEY=")));
  EXPECT_EQ(Attach("step", root).value().id, job->id) << "another process of the same step asks";
  EXPECT_EQ(Attach("other", root).error().code, ErrorCode::kConflict);
  EXPECT_EQ(Attach("step", base::SelfId()).error().code, ErrorCode::kAlreadyExists);
  ::kill(std::atoi(base::ReadFile(Child())->c_str()), SIGKILL);
  ASSERT_TRUE(Ends(job->id));
  EXPECT_EQ(supervisor->Find(job->id)->state, JobState::kFinished);
  EXPECT_EQ(supervisor->Find(job->id)->reason, "status_unknown");
  EXPECT_THAT(kinds, testing::ElementsAre("job_started", "job_finished"));
}

// A cgroup as far as it is read: a file that names its processes.
class ContainerJobs : public SupervisorTest {
 protected:
  void SetUp() override {
    SupervisorTest::SetUp();
    ASSERT_TRUE(base::MakeDirectories(Cgroup()));
  }
  void TearDown() override {
    for (const pid_t pid : std::vector<pid_t>(processes)) End(pid);
    SupervisorTest::TearDown();
  }
  pid_t Begin() {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::execl("/bin/sleep", "sleep", "1000", nullptr);
      ::_exit(127);
    }
    processes.push_back(pid);
    Write();
    return pid;
  }
  void End(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    std::erase(processes, pid);
    Write();
  }
  void Write() {
    std::string list;
    for (const pid_t pid : processes) list += std::to_string(pid) + "\n";
    ASSERT_TRUE(base::ReplaceFile(Cgroup() / "cgroup.procs", list));
  }
  base::Result<Job> Attach(const std::string& tag, const std::string& id) {
    Job job = Asked(tag, "");
    job.cgroup = Cgroup().string();
    job.container = std::make_shared<const Container>(Container{"team", "train", "main", id});
    std::optional<base::Result<Job>> answer;
    supervisor->AttachContainer(std::move(job), [&](base::Result<Job> held) { answer = std::move(held); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer ? *answer : base::Result<Job>(base::Fail(ErrorCode::kTimeout, "no answer"));
  }
  std::filesystem::path Cgroup() { return dir.path() / "cgroup"; }

  std::vector<pid_t> processes;
};

TEST_F(ContainerJobs, RunUntilNothingRunsInThem) {
  EXPECT_EQ(Attach("c", "a").error().code, ErrorCode::kNotFound);
  const pid_t first = Begin();
  const auto job = Attach("c", "a");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->process->pid, first);
  EXPECT_EQ(Attach("other", "a").error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(Attach("c", "b").error().code, ErrorCode::kAlreadyExists);
  const pid_t second = Begin();
  End(first);
  RestartDaemon();
  EXPECT_EQ(supervisor->Find(job->id)->state, JobState::kRunning) << "the second goes on";
  const pid_t third = Begin();
  End(second);
  const pid_t fourth = Begin();
  End(third);
  EXPECT_EQ(supervisor->Signal(job->id, 0).value(), 1u);
  EXPECT_EQ(supervisor->Find(job->id)->state, JobState::kRunning);
  End(fourth);
  ASSERT_TRUE(Ends(job->id));
  EXPECT_EQ(supervisor->Find(job->id)->state, JobState::kFinished);
  EXPECT_TRUE(troubles.empty()) << troubles.front();
}

TEST_F(ContainerJobs, EndAtTheNextStartWhereNothingRunsInThemAnyMore) {
  const pid_t process = Begin();
  const auto id = Attach("c", "a").value().id;
  StopDaemon();
  End(process);
  StartDaemon();
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->state, JobState::kFinished);
}

TEST_F(ContainerJobs, AreEndedForTheGuardAndStayInTheirCgroup) {
  const pid_t process = Begin();
  const auto id = Attach("c", "a").value().id;
  supervisor->Announce(id, {"memory_limit", "over it"});
  EXPECT_EQ(supervisor->Signal(id, SIGKILL).value(), 1u);
  ::waitpid(process, nullptr, 0);
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(supervisor->Find(id)->state, JobState::kKilled);
  EXPECT_EQ(supervisor->Find(id)->reason, "memory_limit");
  EXPECT_TRUE(std::filesystem::exists(Cgroup())) << "the runtime puts it away";
  processes.clear();
}

TEST_F(ContainerJobs, AreNotLetGoNorStartedAgain) {
  Begin();
  const auto id = Attach("c", "a").value().id;
  std::optional<ErrorCode> released, restarted;
  supervisor->Release(id, [&](const base::Result<Job>& done) { released = done.error().code; });
  supervisor->Restart(id, {"r", ""}, [&](const base::Result<Job>& done) { restarted = done.error().code; });
  EXPECT_EQ(released, ErrorCode::kNotSupported);
  EXPECT_EQ(restarted, ErrorCode::kNotSupported);
}

TEST_F(AttachedJobs, GoOnWithADaemonThatComesBack) {
  const auto job = Attach("step", Root("exec sleep 1000")).value();
  const auto key = job.environment;
  RestartDaemon();
  EXPECT_EQ(supervisor->Find(job.id)->state, JobState::kRunning);
  EXPECT_EQ(supervisor->Find(job.id)->environment, key);
  EXPECT_TRUE(ChildLives());
  EndRoot();
  ASSERT_TRUE(Ends(job.id));
}

TEST_F(AttachedJobs, GoOnWhereTheirRootCannotBeWatchedForAWhile) {
  const auto root = Root("exec sleep 1000");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};  // those that are open stay so
  std::optional<base::Result<Job>> answer;
  supervisor->Attach(Asked("step", ""), root, [&](base::Result<Job> job) { answer = std::move(job); });
  // It is on the disk, and nobody has heard of that yet.
  std::promise<void> written;
  store->Read([&](Store&) { written.set_value(); });
  written.get_future().wait();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool tried = Until([&] { return answer && !troubles.empty(); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(answer);
  ASSERT_TRUE(*answer) << answer->error().message;
  ASSERT_TRUE(tried);
  const JobId id = (*answer)->id;
  EXPECT_EQ(supervisor->Find(id)->state, JobState::kRunning);
  EXPECT_TRUE(ChildLives());
  EndRoot();
  ASSERT_TRUE(Ends(id)) << "it is watched again";
}

TEST_F(AttachedJobs, EndAtTheNextStartWhereTheirRootEndedMeanwhile) {
  const auto job = Attach("step", Root("exec sleep 1000")).value();
  StopDaemon();
  EndRoot();
  StartDaemon();
  ASSERT_TRUE(Ends(job.id));
  EXPECT_EQ(supervisor->Find(job.id)->state, JobState::kFinished);
}

TEST_F(AttachedJobs, AreEndedByAskingAndByForceWhatDoesNotHear) {
  auto asked = Asked("step", "");
  asked.grace = base::Millis(1);
  std::optional<JobId> id;
  supervisor->Attach(asked, Root("trap \"\" TERM; while :; do sleep 1; done"),
                     [&](const base::Result<Job>& job) { id = job.value().id; });
  ASSERT_TRUE(Until([&] { return id.has_value(); }));
  const auto removed = Removed(*id);  // its root waits for what ends, and ends
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(removed->state, JobState::kKilled);
  EXPECT_FALSE(ChildLives());
}

TEST_F(AttachedJobs, ThatTheGuardEndsHaveItsReason) {
  const auto job = Attach("step", Root("exec sleep 1000")).value();
  supervisor->Announce(job.id, {"memory_limit", "too much"});
  supervisor->Announce(job.id, {"memory_limit", "too much"});
  ASSERT_TRUE(supervisor->Signal(job.id, SIGKILL));
  ASSERT_TRUE(Ends(job.id));
  EXPECT_EQ(supervisor->Find(job.id)->state, JobState::kKilled);
  EXPECT_EQ(supervisor->Find(job.id)->reason, "memory_limit");
}

TEST_F(AttachedJobs, AreOverWhenTheyAreEndedThoughTheirRootGoesOn) {
  const auto self = base::SelfId();
  auto asked = Asked("step", "");
  asked.grace = base::Millis(1);
  std::optional<JobId> id;
  supervisor->Attach(asked, self, [&](const base::Result<Job>& job) { id = job.value().id; });
  ASSERT_TRUE(Until([&] { return id.has_value(); }));
  const auto root = Root("exec sleep 1000");  // below this process
  const auto removed = Removed(*id);
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_FALSE(ChildLives());
  EXPECT_FALSE(base::IsAlive(root));
}

TEST_F(AttachedJobs, LeaveNothingBehindThatHasTheirKey) {
  const auto job = Attach("step", Root("exec sleep 1000")).value();
  const auto key = supervisor->AttachedEnvironment(job).front();
  const auto stray = dir.path() / "stray";
  const std::string command =
      "env " + key + " setsid sh -c 'echo $$ > " + stray.string() + "; exec sleep 1000' & ";
  ASSERT_EQ(std::system(command.c_str()), 0);
  ASSERT_TRUE(Until([&] { return !base::ReadFile(stray).value_or("").empty(); }));
  EndRoot();
  ASSERT_TRUE(Ends(job.id));
  const auto left = table.Find(std::atoi(base::ReadFile(stray)->c_str()));
  EXPECT_TRUE(!left || left->state == 'Z');
}

TEST_F(AttachedJobs, AreLetGoAndNotStartedAgain) {
  const auto job = Attach("step", Root("exec sleep 1000")).value();
  std::optional<base::Result<Job>> answer;
  supervisor->Restart(job.id, {"restart", ""}, [&](auto restarted) { answer = restarted; });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error().code, ErrorCode::kNotSupported);
  answer.reset();
  supervisor->Release(job.id, [&](auto released) { answer = released; });
  ASSERT_TRUE(Until([&] { return answer.has_value(); }));
  EXPECT_EQ(supervisor->Find(job.id), nullptr);
  EXPECT_TRUE(ChildLives());
}

TEST_F(AttachedJobs, CannotBeOfAProcessThatHasEnded) {
  const auto root = Root("exit 0");
  EndRoot();
  EXPECT_EQ(Attach("step", root).error().code, ErrorCode::kNotFound);
}

TEST_F(AttachedJobs, AreNotThereWhereTheDiskDoesNotTakeThem) {
  const auto root = Root("exec sleep 1000");
  full_switch->SetFull(true);
  EXPECT_FALSE(Attach("step", root, std::string(100'000, 'x')));
  EXPECT_TRUE(supervisor->All().empty());
  full_switch->SetFull(false);
  EXPECT_TRUE(Attach("step", root));
}

TEST_F(SupervisorTest, FindsJobsByTagAndById) {
  const JobId first = Started("t", "exit 0");
  ASSERT_TRUE(Ends(first));
  const JobId second = Started("t", "exec sleep 1000");
  EXPECT_EQ(*supervisor->Resolve("t"), second);
  EXPECT_EQ(*supervisor->Resolve(std::to_string(first.value)), first);
  EXPECT_EQ(supervisor->Resolve("nobody").error().code, ErrorCode::kNotFound);
}

class QueuedJobs : public SupervisorTest {
 protected:
  Job Waiting(const std::string& tag, const std::string& script, Terms terms = {}) {
    Job job = Asked(tag, script);
    job.state = JobState::kQueued;
    job.terms = std::move(terms);
    return job;
  }
  base::Result<std::vector<JobId>> Enqueue(std::vector<Job> jobs) {
    std::optional<base::Result<std::vector<JobId>>> answer;
    supervisor->Enqueue(std::move(jobs), [&](auto ids) { answer = std::move(ids); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer ? *answer : base::Fail(ErrorCode::kTimeout, "no answer");
  }
  JobId Taken(const std::string& script, Terms terms = {}) {
    auto ids = Enqueue({Waiting("q", script, std::move(terms))});
    EXPECT_TRUE(ids);
    return ids ? ids->front() : JobId{};
  }
  base::Result<Job> Start(JobId id) {
    std::optional<base::Result<Job>> answer;
    supervisor->Start(id, {"GPU-a"}, [&](auto job) { answer = std::move(job); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer ? *answer : base::Fail(ErrorCode::kTimeout, "no answer");
  }
  base::Result<Job> Cancel(JobId id) {
    std::optional<base::Result<Job>> answer;
    supervisor->Cancel(id, {"cancelled", "by me"}, [&](auto job) { answer = std::move(job); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer ? *answer : base::Fail(ErrorCode::kTimeout, "no answer");
  }
  JobState StateOf(JobId id) const { return supervisor->Find(id)->state; }
};

TEST_F(QueuedJobs, WaitUntilTheyAreStartedAlsoOverARestart) {
  const JobId id = Taken("echo on $CUDA_VISIBLE_DEVICES");
  RestartDaemon();
  ASSERT_TRUE(supervisor->Find(id));
  EXPECT_EQ(StateOf(id), JobState::kQueued);
  EXPECT_TRUE(supervisor->Active().empty());
  EXPECT_TRUE(std::filesystem::is_empty(dir.path() / "jobs")) << "what waits has no directory";
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(StateOf(id), JobState::kFinished);
  EXPECT_THAT(LogOf(id), ::testing::HasSubstr("on GPU-a"));
  ASSERT_EQ(accounts.size(), 1U);
  EXPECT_EQ(accounts[0].gpus, std::vector<std::string>{"GPU-a"});
}

TEST_F(QueuedJobs, AreTakenTogetherWithConsecutiveIdsOrNotAtAll) {
  const auto ids = Enqueue({Waiting("a", "true"), Waiting("b", "true"), Waiting("c", "true")});
  ASSERT_TRUE(ids);
  EXPECT_EQ(*ids, (std::vector<JobId>{{1}, {2}, {3}}));
  full_switch->SetFull(true);
  std::vector<Job> many;
  many.reserve(500);
  for (int i = 0; i < 500; ++i) many.push_back(Waiting("m" + std::to_string(i), std::string(500, 'x')));
  EXPECT_FALSE(Enqueue(std::move(many)));
  full_switch->SetFull(false);
  EXPECT_EQ(supervisor->All().size(), 3U);
  RestartDaemon();
  EXPECT_EQ(supervisor->All().size(), 3U);
}

TEST_F(QueuedJobs, AStartThatTheDiskDoesNotTakeLeavesThemWaiting) {
  const JobId id = Taken("echo ran");
  full_switch->SetFull(true);
  std::optional<base::Result<Job>> answer;
  supervisor->Start(id, std::vector<std::string>(2000, "GPU-00000000-0000-0000-0000-000000000000"),
                    [&](auto job) { answer = std::move(job); });
  ASSERT_TRUE(Until([&] { return answer.has_value(); }));
  EXPECT_FALSE(*answer);
  EXPECT_EQ(StateOf(id), JobState::kQueued);
  full_switch->SetFull(false);
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(LogOf(id), "ran\n");
}

TEST_F(QueuedJobs, AreCancelledWhetherTheyWaitOrRun) {
  const JobId waiting = Taken("echo ran"), running = Taken("exec sleep 1000");
  ASSERT_TRUE(Start(running));
  ASSERT_TRUE(Becomes(running, JobState::kRunning));
  ASSERT_TRUE(Cancel(waiting));
  EXPECT_EQ(StateOf(waiting), JobState::kCancelled);
  ASSERT_TRUE(Cancel(running));
  ASSERT_TRUE(Ends(running));
  EXPECT_EQ(StateOf(running), JobState::kCancelled);
  EXPECT_FALSE(Cancel(running));
  EXPECT_FALSE(Start(waiting));
  EXPECT_EQ(LogOf(waiting), "");
}

TEST_F(QueuedJobs, RunAgainAfterAFailureWithALogThatGoesOn) {
  Terms terms;
  terms.retries.count = 1;
  const JobId id = Taken("echo run; exit 3", terms);
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Until([&] { return StateOf(id) == JobState::kQueued && supervisor->Find(id)->attempts == 1; }));
  RestartDaemon();
  EXPECT_EQ(StateOf(id), JobState::kQueued);
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(StateOf(id), JobState::kFailed);
  EXPECT_EQ(LogOf(id), "run\nrun\n");
}

TEST_F(QueuedJobs, KeepTheJournalOfARunUntilItsEndIsOnTheDisk) {
  Terms terms;
  terms.retries.count = 1;
  const JobId id = Taken("while [ ! -e go ]; do sleep 0.02; done; exit 3", terms);
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const auto job_dir = dir.path() / "jobs" / "1";
  std::promise<void> gate;
  store->Read([open = gate.get_future().share()](Store&) { open.wait(); });
  ASSERT_TRUE(base::SendSignal(*supervisor->Find(id)->process, SIGKILL));
  ASSERT_TRUE(Becomes(id, JobState::kQueued));
  workers->join();
  EXPECT_TRUE(std::filesystem::exists(job_dir / "journal"))
      << "a daemon that is killed now knows nothing else of the run";
  gate.set_value();
  RestartDaemon();
  EXPECT_EQ(StateOf(id), JobState::kQueued);
  EXPECT_FALSE(std::filesystem::exists(job_dir));
}

TEST_F(QueuedJobs, AreNamedByTheirArrayWhenItsFirstOnesAreForgotten) {
  std::vector<Job> jobs;
  for (int task = 0; task < 4; ++task) {
    jobs.push_back(Waiting("a", "true"));
    jobs.back().array = {{1}, task, 0};
  }
  jobs.push_back(Waiting("b", "true"));
  ASSERT_TRUE(Enqueue(std::move(jobs)));
  EXPECT_EQ(supervisor->TasksOf({1}), (std::vector<JobId>{{1}, {2}, {3}, {4}}));
  EXPECT_EQ(supervisor->TasksOf({2}), (std::vector<JobId>{{2}})) << "a task";
  EXPECT_EQ(supervisor->TasksOf({5}), (std::vector<JobId>{{5}}));
  ASSERT_TRUE(Cancel({1}));
  ASSERT_TRUE(Cancel({3}));
  keep_ended = 0;
  RestartDaemon();
  ASSERT_TRUE(Until([&] { return supervisor->All().size() == 3; }));
  EXPECT_EQ(supervisor->TasksOf({1}), (std::vector<JobId>{{2}, {4}}));
  EXPECT_TRUE(supervisor->TasksOf({3}).empty());
}

TEST_F(QueuedJobs, GiveTheirPlaceUpAndWaitAgain) {
  const JobId id = Taken("echo run; exec sleep 1000");
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  ASSERT_TRUE(Until([&] { return !LogOf(id).empty(); }));
  supervisor->Requeue(id, {"preempted", "made room"});
  ASSERT_TRUE(Becomes(id, JobState::kQueued));
  EXPECT_TRUE(supervisor->Find(id)->gpus.empty());
  EXPECT_TRUE(Until([&] { return !std::filesystem::exists(dir.path() / "jobs" / "1"); }));
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  ASSERT_TRUE(Until([&] { return LogOf(id) == "run\nrun\n"; }));
}

TEST_F(QueuedJobs, EndAtTheirTimeLimit) {
  Terms terms;
  terms.time_limit = base::Millis(200);
  const JobId id = Taken("exec sleep 1000", terms);
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(StateOf(id), JobState::kTimeout);
  EXPECT_EQ(supervisor->Find(id)->reason, "time_limit");
}

}  // namespace
}  // namespace gpuman::jobs
