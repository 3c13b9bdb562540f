#include "jobs/job_file_manager.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/test_temp_dir.h"

namespace gpuman::jobs {
namespace {

// The threads and the loop are lists; the test runs one function after the other.
class JobFileManagerTest : public testing::Test {
 protected:
  static constexpr uid_t kAnn = 1001, kBob = 1002;
  using Posted = std::deque<std::function<void()>>;

  JobFileManagerTest() {
    options_.jobs_dir = dir_.path() / "jobs";
    options_.launch.log_dir = dir_.path() / "logs";
    options_.launch.trace_dir = dir_.path() / "traces";
    for (const auto& folder : {options_.jobs_dir, options_.launch.log_dir, options_.launch.trace_dir})
      EXPECT_TRUE(base::MakeDirectories(folder, 0700));
  }

  static base::Executor To(Posted& list) {
    return [&list](std::function<void()> act) { list.push_back(std::move(act)); };
  }
  static void Next(Posted& list) {
    ASSERT_FALSE(list.empty());
    const auto act = std::move(list.front());
    list.pop_front();
    act();
  }

  // A job that has left so many files among its traces.
  Job WithTraces(std::int64_t id, uid_t user, int files) {
    Job job;
    job.id = {id};
    job.owner = JobOwner{user, user, {}, std::to_string(user)};
    job.spec.Change([](spec::JobSpec& spec) { spec.trace_allocations = true; });
    EXPECT_TRUE(base::MakeDirectories(files_.TracesOf(job.id)));
    for (int i = 0; i < files; ++i)
      EXPECT_TRUE(base::OpenFile(files_.TracesOf(job.id) / std::to_string(i), O_WRONLY | O_CREAT));
    return job;
  }
  bool HasTraces(std::int64_t id) const { return std::filesystem::exists(files_.TracesOf({id})); }
  void Run() {
    while (!threads_.empty() || !loop_.empty()) Next(threads_.empty() ? loop_ : threads_);
  }

  base::TempDir dir_;
  JobManagerOptions options_;
  Posted threads_, loop_;
  JobFileManager files_{To(threads_), To(loop_), options_};
};

TEST_F(JobFileManagerTest, RemovalsOfAUserWhoLeftManyFilesTakeOneThreadAndTurns) {
  for (std::int64_t id = 1; id <= 3; ++id) files_.DeleteAll(WithTraces(id, kAnn, 3'000));
  files_.DeleteAll(WithTraces(4, kBob, 1));
  EXPECT_EQ(threads_.size(), 1u) << "the others start keepers";
  int turns = 0;
  for (; HasTraces(4) && turns < 4; ++turns) {
    Next(threads_);
    Next(loop_);
    EXPECT_LE(threads_.size(), 1u);
  }
  EXPECT_FALSE(HasTraces(4));
  EXPECT_TRUE(HasTraces(1)) << "bob has waited for one turn of ann for each of his, not for all of hers";
  Run();
  for (std::int64_t id = 1; id <= 3; ++id) EXPECT_FALSE(HasTraces(id)) << id;
}

TEST_F(JobFileManagerTest, TracesThatAnEarlierDaemonLeftGoAtTheNextStart) {
  WithTraces(1, kAnn, 10);
  WithTraces(3, kAnn, 10);
  JobIndex index;
  index.SetLastId(2);
  index.Add(WithTraces(2, kAnn, 10));
  ASSERT_TRUE(base::MakeDirectories(options_.launch.trace_dir / "notes"));
  files_.Sweep(index);
  Run();
  EXPECT_FALSE(HasTraces(1));
  EXPECT_TRUE(HasTraces(2));
  EXPECT_TRUE(HasTraces(3)) << "a job with this id may come any moment";
  EXPECT_TRUE(std::filesystem::exists(options_.launch.trace_dir / "notes"));
}

}  // namespace
}  // namespace gpuman::jobs
