// Tests attached jobs.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <future>

#include "jobs/test_job_manager.h"

namespace gpuman::jobs {
namespace {

using base::ErrorCode;

// A process with a child; neither is a child of the job manager, like a step that Slurm started.
class AttachedJobs : public JobManagerTest {
 protected:
  // Runs `script` below the root, with the script's "$$" in the file `child`.
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
    JobManagerTest::TearDown();
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
    manager->Attach(std::move(job), root, [&](base::Result<Job> attached) { answer = std::move(attached); });
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
  const auto environment = manager->AttachedEnvironment(*job);
  EXPECT_THAT(environment, testing::Contains("GPUMAN_JOB_ID=" + std::to_string(job->id.value)));
  EXPECT_THAT(environment, testing::Contains(testing::StartsWith("GPUMAN_JOB_KEY=")));
  EXPECT_EQ(Attach("step", root).value().id, job->id) << "another process of the same step asks";
  EXPECT_EQ(Attach("other", root).error().code, ErrorCode::kConflict);
  EXPECT_EQ(Attach("step", base::SelfId()).error().code, ErrorCode::kAlreadyExists);
  ::kill(std::atoi(base::ReadFile(Child())->c_str()), SIGKILL);
  ASSERT_TRUE(Ends(job->id));
  EXPECT_EQ(manager->Find(job->id)->state, JobState::kFinished);
  EXPECT_EQ(manager->Find(job->id)->reason, "status_unknown");
  EXPECT_THAT(kinds, testing::ElementsAre("job_started", "job_finished"));
}

// Two tasks of a step ask at the same time. If the second answer came before the job is on the disk, a daemon
// that is killed then would not keep it.
TEST_F(AttachedJobs, JobIsAnsweredOnlyOnceItIsOnDisk) {
  const auto root = Root("exec sleep 1000");
  const auto ask = [&](const std::string& command = "") {
    auto answer = std::make_shared<std::optional<base::Result<Job>>>();
    manager->Attach(Asked("step", command), root, [answer](base::Result<Job> given) { *answer = given; });
    return answer;
  };
  full_switch->SetFull(true);
  const auto refused = ask(std::string(100'000, 'x')), refused_too = ask();
  EXPECT_FALSE(*refused || *refused_too);
  ASSERT_TRUE(Until([&] { return *refused && *refused_too; }));
  EXPECT_FALSE((*refused)->has_value() || (*refused_too)->has_value());
  full_switch->SetFull(false);
  const auto first = ask(), second = ask();
  EXPECT_FALSE(*first || *second);
  ASSERT_TRUE(Until([&] { return *first && *second; }));
  ASSERT_TRUE((*first)->has_value() && (*second)->has_value());
  EXPECT_EQ((**first)->id, (**second)->id);
  RestartDaemon();
  EXPECT_TRUE(manager->Find((**first)->id));
}

TEST_F(AttachedJobs, GoOnWithADaemonThatComesBack) {
  const auto job = Attach("step", Root("exec sleep 1000")).value();
  const auto key = job.environment;
  RestartDaemon();
  EXPECT_EQ(manager->Find(job.id)->state, JobState::kRunning);
  EXPECT_EQ(manager->Find(job.id)->environment, key);
  EXPECT_TRUE(ChildLives());
  EndRoot();
  ASSERT_TRUE(Ends(job.id));
}

TEST_F(AttachedJobs, GoOnWhereTheirRootCannotBeWatchedForAWhile) {
  const auto root = Root("exec sleep 1000");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};  // open descriptors stay open
  std::optional<base::Result<Job>> answer;
  manager->Attach(Asked("step", ""), root, [&](base::Result<Job> job) { answer = std::move(job); });
  // The job is on the disk, and the job manager does not know that yet.
  std::promise<void> written;
  store->Read([&](Store&) { written.set_value(); });
  written.get_future().wait();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool tried = Until([&] { return answer && !errors.empty(); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(answer);
  ASSERT_TRUE(*answer) << answer->error().message;
  ASSERT_TRUE(tried);
  const JobId id = (*answer)->id;
  EXPECT_EQ(manager->Find(id)->state, JobState::kRunning);
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
  EXPECT_EQ(manager->Find(job.id)->state, JobState::kFinished);
}

TEST_F(AttachedJobs, KillFollowsTermThatRootIgnores) {
  auto asked = Asked("step", "");
  asked.spec.Change([](auto& spec) { spec.grace = base::Millis(1); });
  std::optional<JobId> id;
  manager->Attach(asked, Root("trap \"\" TERM; while :; do sleep 1; done"),
                  [&](const base::Result<Job>& job) { id = job.value().id; });
  ASSERT_TRUE(Until([&] { return id.has_value(); }));
  const auto removed = Removed(*id);  // its root waits for its processes, and ends
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(removed->state, JobState::kKilled);
  EXPECT_TRUE(Until([&] { return !ChildLives(); })) << "it has its SIGKILL, and ends soon";
}

TEST_F(AttachedJobs, ThatTheGuardEndsHaveItsReason) {
  const auto job = Attach("step", Root("exec sleep 1000")).value();
  manager->Announce(job.id, {"memory_limit", "too much"});
  manager->Announce(job.id, {"memory_limit", "too much"});
  ASSERT_TRUE(manager->Signal(job.id, SIGKILL));
  ASSERT_TRUE(Ends(job.id));
  EXPECT_EQ(manager->Find(job.id)->state, JobState::kKilled);
  EXPECT_EQ(manager->Find(job.id)->reason, "memory_limit");
}

TEST_F(AttachedJobs, KilledJobIsOverThoughItsRootRunsOn) {
  const auto self = base::SelfId();
  auto asked = Asked("step", "");
  asked.spec.Change([](auto& spec) { spec.grace = base::Millis(1); });
  std::optional<JobId> id;
  manager->Attach(asked, self, [&](const base::Result<Job>& job) { id = job.value().id; });
  ASSERT_TRUE(Until([&] { return id.has_value(); }));
  const auto root = Root("exec sleep 1000");  // below this process
  const auto removed = Removed(*id);
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_TRUE(Until([&] { return !ChildLives() && !base::IsAlive(root); })) << "they have their SIGKILL";
}

TEST_F(AttachedJobs, ProcessesWithTheJobsKeyAreEndedWithIt) {
  const auto job = Attach("step", Root("exec sleep 1000")).value();
  const auto key = manager->AttachedEnvironment(job).front();
  const auto stray = dir.path() / "stray";
  const std::string command =
      "env " + key + " setsid sh -c 'echo $$ > " + stray.string() + "; exec sleep 1000' & ";
  ASSERT_EQ(std::system(command.c_str()), 0);
  ASSERT_TRUE(Until([&] { return !base::ReadFile(stray).value_or("").empty(); }));
  EndRoot();
  ASSERT_TRUE(Ends(job.id));
  EXPECT_TRUE(Until([&] {
    const auto left = table.Find(std::atoi(base::ReadFile(stray)->c_str()));
    return !left || left->state == 'Z';
  }));
}

TEST_F(AttachedJobs, AreLetGoAndNotStartedAgain) {
  const auto job = Attach("step", Root("exec sleep 1000")).value();
  std::optional<base::Result<Job>> answer;
  manager->Restart(job.id, {"restart", ""}, [&](auto restarted) { answer = restarted; });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error().code, ErrorCode::kNotSupported);
  answer.reset();
  manager->Release(job.id, [&](auto released) { answer = released; });
  ASSERT_TRUE(Until([&] { return answer.has_value(); }));
  EXPECT_EQ(manager->Find(job.id), nullptr);
  EXPECT_TRUE(ChildLives());
}

TEST_F(AttachedJobs, ThatAreRemovedWhileTheyAreLetGoAnswerBoth) {
  const auto job = Attach("step", Root("exec sleep 1000")).value();
  std::optional<base::Result<Job>> released, removed;
  manager->Release(job.id, [&](auto answer) { released = answer; });
  manager->Remove(job.id, {"removed", "by me"}, [&](auto answer) { removed = answer; });
  EXPECT_TRUE(Until([&] { return released && removed; }));
  EXPECT_TRUE(removed && *removed);
  EXPECT_EQ(manager->Find(job.id), nullptr);
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
  EXPECT_TRUE(AllJobs(manager->index()).empty());
  full_switch->SetFull(false);
  EXPECT_TRUE(Attach("step", root));
}

}  // namespace
}  // namespace gpuman::jobs
