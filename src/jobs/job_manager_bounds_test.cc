// Tests the bounds of one user, and that other users are not affected.
#include <gmock/gmock.h>

#include <algorithm>

#include "jobs/test_job_manager.h"

namespace gpuman::jobs {
namespace {

using base::ErrorCode;

constexpr uid_t kAnn = 61301, kEve = 61303;

class JobManagerBounds : public JobManagerTest {
 protected:
  Job Of(uid_t user, const std::string& tag, const std::string& script = "true") {
    Job job = Asked(tag, script);
    job.owner = JobOwner{user, user, {}, user == kAnn ? "ann" : user == kEve ? "eve" : "root"};
    return job;
  }
  // A job that waits in the queue.
  JobId Taken(Job job) {
    job.state = JobState::kQueued;
    std::optional<base::Result<std::vector<JobId>>> answer;
    manager->Enqueue({std::move(job)}, [&](auto ids) { answer = std::move(ids); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer && *answer ? (*answer)->front() : JobId{};
  }
  // A job that was cancelled before it began.
  JobId Ended(uid_t user, const std::string& script = "true") {
    const JobId id = Taken(Of(user, "ended", script));
    std::optional<base::Result<Job>> answer;
    manager->Cancel(id, {"cancelled", "by me"}, [&](auto job) { answer = std::move(job); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return id;
  }
};

TEST_F(JobManagerBounds, AUserRunsSoManyJobsAtOnceAndOthersTheirs) {
  running_of_user = 2;
  RestartDaemon();
  std::vector<base::Result<Job>> answers;
  const auto create = [&](Job job) {
    manager->Create(std::move(job), [&](base::Result<Job> made) { answers.push_back(std::move(made)); });
  };
  create(Of(kEve, "a", "exec sleep 1000"));
  create(Of(kEve, "b", "exec sleep 1000"));
  ASSERT_TRUE(answers.empty()) << "those on their way count";
  create(Of(kEve, "c"));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].error().code, ErrorCode::kUnsatisfiable);
  EXPECT_EQ(answers[0].error().message,
            "user eve has 2 running jobs; with 1 more that passes the bound of 2");
  create(Of(kAnn, "d"));
  for (const char* tag : {"e", "f", "g"}) create(Of(0, tag, "exec sleep 1000"));
  ASSERT_TRUE(Until([&] { return answers.size() == 7; }));
  EXPECT_TRUE(
      std::all_of(answers.begin() + 1, answers.end(), [](const auto& one) { return one.has_value(); }));
}

TEST_F(JobManagerBounds, TheTextOfJobsThatHaveNotEndedIsBounded) {
  text_of_user = base::KiB(100);
  RestartDaemon();
  const JobOwner eve{kEve, kEve, {}, "eve"};
  const std::string long_script(60'000, '#');
  const JobId id = Taken(Of(kEve, "a", long_script));
  EXPECT_TRUE(manager->MayAddText(eve, {}, base::KiB(30)));
  const auto refused = manager->MayAddText(eve, base::KiB(20), base::KiB(30));
  ASSERT_FALSE(refused) << "what is on its way counts";
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsatisfiable);
  EXPECT_THAT(refused.error().message,
              ::testing::HasSubstr("with 30KiB more that passes the bound of 100KiB"));
  EXPECT_TRUE(manager->MayAddText({kAnn, kAnn, {}, "ann"}, {}, base::KiB(90)));
  EXPECT_TRUE(manager->MayAddText({0, 0, {}, "root"}, {}, base::MiB(90)));

  std::optional<base::Result<Job>> run;
  manager->Create(Of(kEve, "b", long_script), [&](auto made) { run = std::move(made); });
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->error().code, ErrorCode::kUnsatisfiable);

  Job changed = *manager->Find(id);
  changed.spec.Change([](auto& spec) { spec.priority = 3; });
  EXPECT_TRUE(manager->MayChangeText(id, changed));
  changed.command.back() += long_script;
  EXPECT_EQ(manager->MayChangeText(id, changed).error().code, ErrorCode::kUnsatisfiable);

  std::optional<base::Result<Job>> cancelled;
  manager->Cancel(id, {"cancelled", "by me"}, [&](auto job) { cancelled = std::move(job); });
  ASSERT_TRUE(Until([&] { return cancelled.has_value(); }));
  EXPECT_TRUE(manager->MayAddText(eve, {}, base::KiB(90))) << "it has ended";
}

TEST_F(JobManagerBounds, TextThatJobsShareCountsOnce) {
  text_of_user = base::KiB(100);
  RestartDaemon();
  for (int i = 0; i < 5; ++i) {
    Job job = Of(kEve, "t");
    job.environment = Variables{{"LONG", std::string(60'000, 'x')}};
    (void)Taken(std::move(job));
  }
  EXPECT_TRUE(manager->MayAddText({kEve, kEve, {}, "eve"}, {}, base::KiB(30)));
}

TEST_F(JobManagerBounds, AUserWithManyEndedJobsPushesOutNoOthers) {
  keep_ended = 4;
  RestartDaemon();
  const JobId neighbours = Ended(kAnn);
  std::vector<JobId> own;
  own.reserve(12);
  for (int i = 0; i < 12; ++i) own.push_back(Ended(kEve));
  ASSERT_TRUE(Until([&] { return AllJobs(manager->index()).size() <= 4; }));
  EXPECT_TRUE(manager->Find(neighbours));
  EXPECT_TRUE(manager->Find(own.back()));
  EXPECT_FALSE(manager->Find(own.front()));
}

TEST_F(JobManagerBounds, ThoseThatEndedAreForgottenWhenTheirTextIsTooMuch) {
  text_of_user = base::KiB(100);
  RestartDaemon();
  const JobId neighbours = Ended(kAnn, std::string(60'000, '#'));
  const JobId first = Ended(kEve, std::string(60'000, '#'));
  const JobId second = Ended(kEve, std::string(60'000, '#'));
  ASSERT_TRUE(Until([&] { return !manager->Find(first); }));
  EXPECT_TRUE(manager->Find(second));
  EXPECT_TRUE(manager->Find(neighbours));
}

// Two threads start their keepers.
TEST_F(JobManagerBounds, AJobBehindManyOfAnotherUserIsStartedAmongTheFirst) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root starts jobs of several users";
  const auto order = dir.path() / "order";
  WrapKeeper("echo \"$*\" >> " + order.string() + "\nexec \"$KEEPER\" \"$@\"");
  constexpr int kMany = 30;
  std::optional<JobId> neighbours;
  for (int i = 0; i < kMany; ++i) manager->Create(Of(kEve, "e" + std::to_string(i)), [](const auto&) {});
  manager->Create(Of(kAnn, "n"), [&](const auto& made) { neighbours = made ? made->id : JobId{}; });
  ASSERT_TRUE(Until([&] {
    const auto jobs = AllJobs(manager->index());
    return neighbours && std::all_of(jobs.begin(), jobs.end(), [](const Job* job) { return IsEnded(*job); });
  }));
  std::istringstream lines(base::ReadFile(order).value_or(""));
  int place = 0, found = 0;
  for (std::string line; std::getline(lines, line); ++place)
    if (line.find("/jobs/" + std::to_string(neighbours->value)) != std::string::npos) found = place;
  EXPECT_EQ(place, kMany + 1);
  EXPECT_LT(found, kMany / 2) << "it came last";
}

}  // namespace
}  // namespace gpuman::jobs
