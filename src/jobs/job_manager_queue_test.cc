// Tests jobs of the queue: they wait, run, and wait again.
#include <gmock/gmock.h>

#include <csignal>
#include <future>

#include "jobs/test_job_manager.h"

namespace gpuman::jobs {
namespace {

using base::ErrorCode;

class QueuedJobs : public JobManagerTest {
 protected:
  Job Waiting(const std::string& tag, const std::string& script, spec::JobSpec asked = {}) {
    Job job = Asked(tag, script);
    job.state = JobState::kQueued;
    job.spec = std::move(asked);
    return job;
  }
  base::Result<std::vector<JobId>> Enqueue(std::vector<Job> jobs) {
    std::optional<base::Result<std::vector<JobId>>> answer;
    manager->Enqueue(std::move(jobs), [&](auto ids) { answer = std::move(ids); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer ? *answer : base::Fail(ErrorCode::kTimeout, "no answer");
  }
  JobId Taken(const std::string& script, spec::JobSpec asked = {}) {
    auto ids = Enqueue({Waiting("q", script, std::move(asked))});
    EXPECT_TRUE(ids);
    return ids ? ids->front() : JobId{};
  }
  base::Result<Job> Start(JobId id) {
    std::optional<base::Result<Job>> answer;
    manager->Start(id, {"GPU-a"}, [&](auto job) { answer = std::move(job); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer ? *answer : base::Fail(ErrorCode::kTimeout, "no answer");
  }
  base::Result<Job> Cancel(JobId id) {
    std::optional<base::Result<Job>> answer;
    manager->Cancel(id, {"cancelled", "by me"}, [&](auto job) { answer = std::move(job); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer ? *answer : base::Fail(ErrorCode::kTimeout, "no answer");
  }
  JobState StateOf(JobId id) const { return manager->Find(id)->state; }
};

TEST_F(QueuedJobs, WaitUntilTheyAreStartedAlsoOverARestart) {
  const JobId id = Taken("echo on $CUDA_VISIBLE_DEVICES");
  RestartDaemon();
  ASSERT_TRUE(manager->Find(id));
  EXPECT_EQ(StateOf(id), JobState::kQueued);
  EXPECT_TRUE(manager->Active().empty());
  EXPECT_TRUE(std::filesystem::is_empty(dir.path() / "jobs")) << "what waits has no directory";
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(StateOf(id), JobState::kFinished);
  EXPECT_THAT(LogOf(id), ::testing::HasSubstr("on GPU-a"));
  ASSERT_EQ(accounts.size(), 1U);
  EXPECT_EQ(accounts[0].gpus, std::vector<std::string>{"GPU-a"});
}

TEST_F(QueuedJobs, ThatHaveNotEndedAreFoundByTheirTag) {
  std::vector<Job> jobs{Waiting("t", "true"), Waiting("other", "true"), Waiting("t", "true")};
  for (int task = 0; task < 3; ++task) {
    jobs.push_back(Waiting("t", "true"));
    jobs.back().array = {{4}, task, 0};
  }
  ASSERT_TRUE(Enqueue(std::move(jobs)));
  const uid_t user = manager->Find({1})->owner->uid;
  using Ids = std::vector<JobId>;
  constexpr auto kOpen = JobIndex::Which::kOpen, kAll = JobIndex::Which::kAll;
  EXPECT_EQ(manager->index().NameOf(*manager->Find({1})), "1");
  EXPECT_EQ(manager->index().NameOf(*manager->Find({2})), "other");
  EXPECT_EQ(manager->index().Named("t", std::nullopt, kOpen), (Ids{{4}, {3}, {1}})) << "an array is one";
  EXPECT_EQ(manager->index().Named("t", user, kOpen), (Ids{{4}, {3}, {1}}));
  EXPECT_EQ(manager->index().Named("t", user + 1, kOpen), Ids{});
  ASSERT_TRUE(Cancel({3}));
  ASSERT_TRUE(Until([&] { return IsEnded(StateOf({3})); }));
  EXPECT_EQ(manager->index().Named("t", user, kOpen), (Ids{{4}, {1}}));
  EXPECT_EQ(manager->index().Named("t", user, kAll), (Ids{{4}, {3}, {1}}));
  EXPECT_EQ(manager->index().Named("nobody", user, kOpen), Ids{});
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
  EXPECT_EQ(AllJobs(manager->index()).size(), 3U);
  RestartDaemon();
  EXPECT_EQ(AllJobs(manager->index()).size(), 3U);
}

TEST_F(QueuedJobs, AStartThatTheDiskDoesNotTakeLeavesThemWaiting) {
  const JobId id = Taken("echo ran");
  full_switch->SetFull(true);
  std::optional<base::Result<Job>> answer;
  manager->Start(id, std::vector<std::string>(2000, "GPU-00000000-0000-0000-0000-000000000000"),
                 [&](auto job) { answer = std::move(job); });
  ASSERT_TRUE(Until([&] { return answer.has_value(); }));
  EXPECT_FALSE(*answer);
  EXPECT_EQ(StateOf(id), JobState::kQueued);
  full_switch->SetFull(false);
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(LogOf(id), "ran\n");
}

TEST_F(QueuedJobs, AChangeThatTheDiskDoesNotTakeTakesNothingNewerAlong) {
  const JobId id = Taken("true");
  const std::string tag = manager->Find(id)->tag;
  full_switch->SetFull(true);
  std::optional<base::Result<Job>> changed, cancelled;
  manager->Change(
      id, [](Job& job) { job.tag = "other", job.command = {std::string(1'000'000, 'x')}; },
      [&](auto job) { changed = std::move(job); });
  manager->Cancel(id, {"cancelled", "by me"}, [&](auto job) { cancelled = std::move(job); });
  ASSERT_TRUE(Until([&] { return changed && cancelled; }));
  EXPECT_FALSE(*changed);
  EXPECT_EQ(StateOf(id), JobState::kCancelled);
  EXPECT_EQ(manager->Find(id)->tag, tag);
  EXPECT_EQ(manager->Find(id)->command.front(), "/bin/sh");
}

TEST_F(QueuedJobs, ChangesThatTheDiskDoesNotTakeAreAllUndone) {
  const JobId id = Taken("true");
  const auto before = manager->Find(id)->spec;
  full_switch->SetFull(true);
  std::optional<base::Result<Job>> first, second, third;
  const auto change = [&](auto& answer, const std::function<void(spec::JobSpec&)>& set) {
    manager->Change(
        id,
        [&](Job& job) {
          job.spec.Change(set);
          job.command = {std::string(1'000'000, 'x')};
        },
        [&](auto job) { answer = std::move(job); });
  };
  change(first, [](spec::JobSpec& spec) { spec.priority = 7; });
  change(second, [](spec::JobSpec& spec) { spec.project = "other"; });
  change(third, [](spec::JobSpec& spec) { spec.priority = 9; });
  ASSERT_TRUE(Until([&] { return first && second && third; }));
  EXPECT_FALSE(*first);
  EXPECT_FALSE(*second);
  EXPECT_FALSE(*third);
  EXPECT_EQ(*manager->Find(id)->spec, *before);
  full_switch->SetFull(false);
  change(first, [](spec::JobSpec& spec) { spec.priority = 5; });
  ASSERT_TRUE(Until([&] { return first->has_value(); }));
  EXPECT_EQ(manager->Find(id)->spec->priority, 5);
}

TEST_F(QueuedJobs, AHoldOrAReleaseThatTheDiskDoesNotTakeDoesNotHappen) {
  const JobId id = Taken("true");
  std::optional<base::Result<Job>> answer;
  const auto store_answer = [&](auto job) { answer = std::move(job); };
  const auto hold = [&](std::size_t detail) {
    answer.reset();
    manager->Hold(id, {"held_by_user", std::string(detail, 'x')}, store_answer);
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
  };
  const auto release = [&] {
    answer.reset();
    manager->Unhold(id, store_answer);
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
  };
  full_switch->SetFull(true);
  hold(1'000'000);
  EXPECT_FALSE(*answer);
  EXPECT_EQ(StateOf(id), JobState::kQueued);
  full_switch->SetFull(false);
  hold(10);
  ASSERT_TRUE(*answer);
  std::optional<bool> renamed;
  manager->Change(
      id, [](Job& job) { job.command = {std::string(1'000'000, 'x')}; },
      [&](const auto& job) { renamed = job.has_value(); });
  ASSERT_TRUE(Until([&] { return renamed.has_value(); }));
  ASSERT_TRUE(*renamed);
  full_switch->SetFull(true);
  release();
  EXPECT_FALSE(*answer);
  EXPECT_EQ(StateOf(id), JobState::kHeld);
  EXPECT_EQ(manager->Find(id)->reason_detail, std::string(10, 'x'));
  full_switch->SetFull(false);
  release();
  EXPECT_TRUE(*answer);
  EXPECT_EQ(StateOf(id), JobState::kQueued);
  RestartDaemon();
  EXPECT_EQ(StateOf(id), JobState::kQueued);
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
  spec::JobSpec asked;
  asked.retries.count = 1;
  const JobId id = Taken("echo run; exit 3", asked);
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Until([&] { return StateOf(id) == JobState::kQueued && manager->Find(id)->attempts == 1; }));
  RestartDaemon();
  EXPECT_EQ(StateOf(id), JobState::kQueued);
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(StateOf(id), JobState::kFailed);
  EXPECT_EQ(LogOf(id), "run\nrun\n");
}

TEST_F(QueuedJobs, KeepTheJournalOfARunUntilItsEndIsOnTheDisk) {
  spec::JobSpec asked;
  asked.retries.count = 1;
  const JobId id = Taken("while [ ! -e go ]; do sleep 0.02; done; exit 3", asked);
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  const auto job_dir = dir.path() / "jobs" / "1";
  std::promise<void> gate;
  store->Read([open = gate.get_future().share()](Store&) { open.wait(); });
  ASSERT_TRUE(base::SendSignal(*manager->Find(id)->process, SIGKILL));
  ASSERT_TRUE(Becomes(id, JobState::kQueued));
  workers->join();
  EXPECT_TRUE(std::filesystem::exists(job_dir / "journal"))
      << "a daemon that is killed now knows nothing else of the run";
  gate.set_value();
  // A daemon does not delete a directory that a keeper still uses.
  ASSERT_TRUE(Until([&] { return !keeper::KeeperLives(job_dir); }));
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
  EXPECT_EQ(manager->index().TasksOf({1}), (std::vector<JobId>{{1}, {2}, {3}, {4}}));
  EXPECT_EQ(manager->index().TasksOf({2}), (std::vector<JobId>{{2}})) << "a task";
  EXPECT_EQ(manager->index().TasksOf({5}), (std::vector<JobId>{{5}}));
  ASSERT_TRUE(Cancel({1}));
  ASSERT_TRUE(Cancel({3}));
  keep_ended = 0;
  RestartDaemon();
  ASSERT_TRUE(Until([&] { return AllJobs(manager->index()).size() == 3; }));
  EXPECT_EQ(manager->index().TasksOf({1}), (std::vector<JobId>{{2}, {4}}));
  EXPECT_TRUE(manager->index().TasksOf({3}).empty());
}

TEST_F(QueuedJobs, GiveTheirPlaceUpAndWaitAgain) {
  const JobId id = Taken("echo run; exec sleep 1000");
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  ASSERT_TRUE(Until([&] { return !LogOf(id).empty(); }));
  manager->Requeue(id, {"preempted", "made room"});
  ASSERT_TRUE(Becomes(id, JobState::kQueued));
  EXPECT_TRUE(manager->Find(id)->gpus.empty());
  EXPECT_TRUE(Until([&] { return !std::filesystem::exists(dir.path() / "jobs" / "1"); }));
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Becomes(id, JobState::kRunning));
  ASSERT_TRUE(Until([&] { return LogOf(id) == "run\nrun\n"; }));
}

TEST_F(QueuedJobs, EndAtTheirTimeLimit) {
  spec::JobSpec asked;
  asked.time_limit = base::Millis(200);
  const JobId id = Taken("exec sleep 1000", asked);
  ASSERT_TRUE(Start(id));
  ASSERT_TRUE(Ends(id));
  EXPECT_EQ(StateOf(id), JobState::kTimeout);
  EXPECT_EQ(manager->Find(id)->reason, "time_limit");
}

}  // namespace
}  // namespace gpuman::jobs
