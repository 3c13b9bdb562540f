// The queue's jobs when the clock on the wall is set, and accounts that nobody needs any more.
#include "daemon/queue/dispatcher.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <string>

#include "base/temp_dir.h"

namespace gpuman::daemon {
namespace {

using namespace std::chrono_literals;

class HandClock final : public base::Clock {
 public:
  base::MonoTime Mono() const override { return mono; }
  base::WallTime Wall() const override { return wall; }
  void Pass(base::Millis time) {
    mono += time;
    wall += time;
  }
  base::MonoTime mono{100h};
  base::WallTime wall{std::chrono::hours(24 * 365 * 56)};
};

// Jobs that wait on a machine without GPUs.
class DispatcherTest : public ::testing::Test, public jobs::SupervisorHost, public DispatcherHost {
 protected:
  DispatcherTest()
      : workers_(1),
        store_(jobs::Store::Open(dir_.path() / "gpuman.db").value(),
               [this](std::function<void()> task) { boost::asio::post(loop_, std::move(task)); }),
        jobs_(loop_, workers_, store_, clock_, table_, *this, {}),
        dispatcher_(loop_, clock_, jobs_, *this) {}
  ~DispatcherTest() override { workers_.join(); }

  // One that failed, and waits for its retry.
  static jobs::Job Retried(base::WallTime not_before, base::Millis delay) {
    jobs::Job job;
    job.id = {1};
    job.queued = true;
    job.state = jobs::JobState::kQueued;
    job.owner = jobs::Owner{::getuid(), ::getgid(), {}, "ann"};
    jobs::Terms terms;
    terms.retries.delay = delay;
    job.terms = terms;
    job.not_before = not_before;
    return job;
  }
  void Adopt(jobs::Job job) {
    jobs::StoreContents contents;
    contents.jobs.push_back(std::move(job));
    jobs_.Adopt(std::move(contents));
  }
  // What is left of the delay; nullopt: it waits for nothing of that kind.
  std::optional<base::Millis> Left() {
    dispatcher_.Wake();
    const auto look = dispatcher_.Look();
    if (look.plan.verdicts.at(0).reason != queue::Reason::kRetryDelay) return std::nullopt;
    return look.snapshot.waiting.at(0).begin - look.now;
  }
  static jobs::RunAccount Run(const std::string& project, base::WallTime ended) {
    jobs::RunAccount run;
    run.user = "ann";
    run.project = project;
    run.gpus = {"GPU-a"};
    run.started = ended - 1min;
    run.ended = ended;
    run.ran = 1min;
    return run;
  }

  void OnJobChanged(const jobs::Job& job, const jobs::Runtime&) override { dispatcher_.OnJobChanged(job); }
  void OnJobForgotten(base::JobId job) override { dispatcher_.OnJobForgotten(job); }
  void OnNotice(const jobs::Job&, const jobs::Notice&) override {}
  void OnRunEnded(const jobs::Job&, jobs::RunAccount&) override {}
  bool IsNeeded(base::JobId) override { return false; }
  void OnTrouble(const jobs::Job&, const std::string&) override {}
  std::optional<base::Bytes> PeakOf(base::JobId) override { return std::nullopt; }
  std::vector<std::string> AllGpus() override { return {}; }
  const gpu::Inventory& GpuInventory() override { return inventory_; }
  const std::map<std::string, guard::GpuStatus>& GpuStatuses() override { return statuses_; }
  base::Bytes ReserveOf(const std::string&) override { return {}; }
  bool IsOutOfUse(const gpu::Gpu&) override { return false; }
  std::string NameOfUser(uid_t) override { return "ann"; }
  const std::set<std::string>& ProtectedNames() override { return protected_; }
  bool IsPreempted(base::JobId) override { return false; }
  void TakeOff(base::JobId, const std::string&, Done) override {}
  void BringBack(base::JobId, std::optional<std::string>, Done) override {}
  void MoveTo(base::JobId, const std::string&, Done) override {}

  base::TempDir dir_;
  HandClock clock_;
  base::ProcFs table_;
  gpu::Inventory inventory_;
  std::map<std::string, guard::GpuStatus> statuses_;
  std::set<std::string> protected_;
  boost::asio::io_context loop_;
  boost::asio::thread_pool workers_;
  jobs::StoreWorker store_;
  jobs::Supervisor jobs_;
  Dispatcher dispatcher_;
};

TEST_F(DispatcherTest, ARetryWaitsAsLongAsItIsToWhateverTheClockIsSetTo) {
  Adopt(Retried(clock_.Wall() + 10min, 10min));
  EXPECT_EQ(Left(), 10min);
  clock_.Pass(3min);
  EXPECT_EQ(Left(), 7min);
  clock_.wall -= 5h;
  EXPECT_EQ(Left(), 7min);
  clock_.Pass(3min);
  clock_.wall += 24h;
  EXPECT_EQ(Left(), 4min);
  clock_.Pass(4min);
  EXPECT_EQ(Left(), std::nullopt);
  clock_.wall -= 24h;
  EXPECT_EQ(Left(), std::nullopt) << "it is over";
}

TEST_F(DispatcherTest, ARetryOfADaemonBeforeWaitsNoLongerThanItsDelayFromNow) {
  Adopt(Retried(clock_.Wall() + 5h, 10min));
  EXPECT_EQ(Left(), 10min);
}

TEST_F(DispatcherTest, AProjectForEachRunIsForgottenWhenItCountsNoMore) {
  dispatcher_.SetSettings({}, 24h);
  const auto& snapshot = dispatcher_.book().snapshot();
  for (int i = 0; i < 50; ++i) dispatcher_.Charge(Run("ci-" + std::to_string(i), clock_.Wall()));
  dispatcher_.ForgetOldAccounts();
  EXPECT_EQ(snapshot.projects.size(), 50u);
  clock_.Pass(snapshot.settings.half_life);
  dispatcher_.Charge(Run("late", clock_.Wall()));
  dispatcher_.ForgetOldAccounts();
  EXPECT_EQ(snapshot.projects.size(), 51u) << "fair share still needs them";
  clock_.Pass((queue::kHalfLivesKept - 1) * snapshot.settings.half_life);
  dispatcher_.ForgetOldAccounts();
  ASSERT_EQ(snapshot.projects.size(), 1u);
  EXPECT_EQ(snapshot.projects[0].name, "late");
  EXPECT_EQ(snapshot.members.size(), 1u);
}

}  // namespace
}  // namespace gpuman::daemon
