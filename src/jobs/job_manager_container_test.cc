// Tests jobs that are a container's processes, by its cgroup.
#include <sys/wait.h>

#include <csignal>

#include "jobs/test_job_manager.h"

namespace gpuman::jobs {
namespace {

using base::ErrorCode;

// The part of a cgroup that is read: a file with the pids of its processes.
class ContainerJobs : public JobManagerTest {
 protected:
  void SetUp() override {
    JobManagerTest::SetUp();
    ASSERT_TRUE(base::MakeDirectories(Cgroup()));
  }
  void TearDown() override {
    for (const pid_t pid : std::vector<pid_t>(processes)) End(pid);
    JobManagerTest::TearDown();
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
    manager->AttachContainer(std::move(job), [&](base::Result<Job> held) { answer = std::move(held); });
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
  EXPECT_EQ(manager->Find(job->id)->state, JobState::kRunning) << "the second goes on";
  const pid_t third = Begin();
  End(second);
  const pid_t fourth = Begin();
  End(third);
  EXPECT_EQ(Reached(job->id, 0), 1u);
  EXPECT_EQ(manager->Find(job->id)->state, JobState::kRunning);
  End(fourth);
  ASSERT_TRUE(Ends(job->id));
  EXPECT_EQ(manager->Find(job->id)->state, JobState::kFinished);
  EXPECT_TRUE(errors.empty()) << errors.front();
}

TEST_F(ContainerJobs, EndAtTheNextStartWhereNothingRunsInThemAnyMore) {
  const pid_t process = Begin();
  const auto id = Attach("c", "a").value().id;
  StopDaemon();
  End(process);
  StartDaemon();
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->state, JobState::kFinished);
}

TEST_F(ContainerJobs, AreEndedForTheGuardAndStayInTheirCgroup) {
  const pid_t process = Begin();
  const auto id = Attach("c", "a").value().id;
  manager->Announce(id, {"memory_limit", "over it"});
  EXPECT_EQ(Reached(id, SIGKILL), 1u);
  ::waitpid(process, nullptr, 0);
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(manager->Find(id)->state, JobState::kKilled);
  EXPECT_EQ(manager->Find(id)->reason, "memory_limit");
  EXPECT_TRUE(std::filesystem::exists(Cgroup())) << "the runtime puts it away";
  processes.clear();
}

TEST_F(ContainerJobs, AreNotLetGoNorStartedAgain) {
  Begin();
  const auto id = Attach("c", "a").value().id;
  std::optional<ErrorCode> released, restarted;
  manager->Release(id, [&](const base::Result<Job>& done) { released = done.error().code; });
  manager->Restart(id, {"r", ""}, [&](const base::Result<Job>& done) { restarted = done.error().code; });
  EXPECT_EQ(released, ErrorCode::kNotSupported);
  EXPECT_EQ(restarted, ErrorCode::kNotSupported);
}

}  // namespace
}  // namespace gpuman::jobs
