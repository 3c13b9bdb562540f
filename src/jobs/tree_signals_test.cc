#include "jobs/tree_signals.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <optional>

#include "base/file.h"
#include "base/test_temp_dir.h"
#include "jobs/test_watched_table.h"

namespace gpuman::jobs {
namespace {

constexpr JobId kJob{1};
constexpr JobId kOther{2};

class TreeSignalsTest : public ::testing::Test {
 protected:
  ~TreeSignalsTest() override {
    for (const pid_t pid : children_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  // A job of `processes` processes that do nothing, children of a process that stands in place of a keeper.
  SignalOrder Job(int processes, int signal) {
    int ready[2] = {};
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t keeper = ::fork();
    if (keeper == 0) {
      for (int i = 0; i < processes; ++i) {
        if (::fork() != 0) continue;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::close(ready[1]);
        for (;;) ::pause();
      }
      ::close(ready[0]);
      ::close(ready[1]);
      for (;;) {
        while (::waitpid(-1, nullptr, 0) > 0) {
        }
        ::pause();
      }
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 0) << "all are there";
    ::close(ready[0]);
    children_.push_back(keeper);
    SignalOrder order;
    order.tree.keeper = base::IdentityOf(keeper).value();
    order.signal = signal;
    return order;
  }
  TreeSignals::Done Count() {
    return [this](const SignalOrderResult& sent) { told_.push_back(sent.processes); };
  }
  void Await(std::size_t answers) {
    while (told_.size() < answers) {
      loop_.restart();
      loop_.run_one();
    }
  }
  // Waits until the killed processes are gone.
  void AwaitNone(const SignalOrder& order) {
    while (Living(order) > 0) std::this_thread::yield();
  }
  std::size_t Living(const SignalOrder& order) { return keeper::Members(order.tree, base::ProcFs()).size(); }

  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{loop_.get_executor()};
  WatchedTable table_;
  base::SystemClock clock_;
  std::vector<pid_t> children_;
  std::vector<std::size_t> told_;
  std::optional<TreeSignals> signals_{
      std::in_place, [this](std::function<void()> act) { boost::asio::post(loop_, std::move(act)); }, table_,
      clock_};
};

TEST_F(TreeSignalsTest, ListsNoProcessOnTheThreadThatOrders) {
  const auto order = Job(3, SIGKILL);
  signals_->Send(kJob, order, Count());
  Await(1);
  EXPECT_EQ(told_[0], 3u);
  AwaitNone(order);
  EXPECT_GT(table_.listings(), 0);
  EXPECT_FALSE(table_.WasReadOn(std::this_thread::get_id()));
}

TEST_F(TreeSignalsTest, OrdersThatWaitMergeIntoTheStrongestSignal) {
  const auto order = [&, job = Job(2, SIGCONT)](int signal) {
    auto copy = job;
    copy.signal = signal;
    return copy;
  };
  table_.Hold();
  signals_->Send(kJob, order(SIGCONT), Count());
  table_.AwaitHeld();
  for (const int signal : {SIGCONT, SIGKILL, SIGTERM, SIGCONT, SIGKILL})
    signals_->Send(kJob, order(signal), Count());
  table_.Release();
  Await(6);
  AwaitNone(order(0));  // SIGKILL has won
  EXPECT_LE(table_.listings(), 3) << "one for SIGCONT, one that finds whom to kill and one that finds nobody";
}

TEST_F(TreeSignalsTest, AKillThatIsUnderWayIsWhatFurtherOnesAskFor) {
  const auto order = Job(1, SIGKILL);
  table_.Hold();
  signals_->Send(kJob, order, Count());
  table_.AwaitHeld();
  for (int i = 0; i < 10; ++i) signals_->Send(kJob, order, Count());
  table_.Release();
  Await(11);
  EXPECT_EQ(told_, std::vector<std::size_t>(11, 1));
  EXPECT_EQ(table_.listings(), 2);
}

TEST_F(TreeSignalsTest, JobsAreFoundInOneListingAndTheSmallestIsServedFirst) {
  const auto first = Job(1, SIGCONT);  // holds the thread until the others have come
  const auto large = Job(100, SIGTERM);
  const auto small = Job(1, SIGTERM);
  table_.Hold();
  signals_->Send({3}, first, Count());
  table_.AwaitHeld();
  signals_->Send(kJob, large, Count());
  signals_->Send(kOther, small, Count());
  table_.Release();
  Await(3);
  EXPECT_EQ(told_, (std::vector<std::size_t>{1, 1, 100}));
  EXPECT_EQ(table_.listings(), 2);
}

TEST_F(TreeSignalsTest, ManyProcessesAreStoppedBeforeTheyAreKilled) {
  const auto order = Job(100, SIGKILL);
  signals_->Send(kJob, order, Count());
  Await(1);
  EXPECT_EQ(told_[0], 100u);
  AwaitNone(order);
}

TEST_F(TreeSignalsTest, TheEndOfARunIsToldBehindItsSignals) {
  table_.Hold();
  const auto order = Job(1, SIGCONT);
  auto next = order;
  next.signal = SIGKILL;
  signals_->Send(kJob, order, Count());
  table_.AwaitHeld();
  signals_->Send(kJob, next, Count());
  signals_->RunIsOver(kJob);
  EXPECT_EQ(told_, (std::vector<std::size_t>{0, 0})) << "at once, with what has been sent by then";
  table_.Release();
  signals_->Send(kOther, Job(1, SIGCONT), Count());
  Await(3);
  EXPECT_EQ(Living(order), 1u) << "what waited was for the run that is over";
}

// Here the processes have their keeper's name, like a process that is about to execute a command.
TEST_F(TreeSignalsTest, BeforeExecOnlyTheProcessOfTheOrderedRunIsSignalled) {
  auto order = Job(2, SIGKILL);
  order.has_runs = true;
  order.run = keeper::Members(order.tree, base::ProcFs()).front().id;
  signals_->Send(kJob, order, Count());
  Await(1);
  EXPECT_EQ(told_[0], 1u);
  while (Living(order) > 1) std::this_thread::yield();
  EXPECT_TRUE(!base::IsAlive(*order.run));
}

TEST_F(TreeSignalsTest, ProcessOfAnotherRunIsNotSignalled) {
  auto order = Job(1, SIGKILL);
  order.has_runs = true;
  order.run = keeper::Members(order.tree, base::ProcFs()).front().id;
  order.is_over = [] { return true; };
  signals_->Send(kJob, order, Count());
  Await(1);
  EXPECT_EQ(told_[0], 0u);
  EXPECT_EQ(Living(order), 1u);
}

TEST_F(TreeSignalsTest, ACgroupIsKilledAtOnce) {
  const base::TempDir dir;
  SignalOrder order;
  order.tree.cgroup = dir.path();
  order.signal = SIGKILL;
  // Pids that no process has.
  std::ofstream(dir.path() / "cgroup.procs") << "99999998\n99999999\n";
  std::ofstream(dir.path() / "cgroup.kill") << "";
  table_.Hold();
  signals_->Send(kOther, Job(1, SIGCONT), Count());
  table_.AwaitHeld();
  signals_->Send(kJob, order, Count());
  EXPECT_EQ(base::ReadFile(dir.path() / "cgroup.kill").value(), "1");
  table_.Release();
  Await(2);
  EXPECT_EQ(told_, (std::vector<std::size_t>{1, 2}));
}

TEST_F(TreeSignalsTest, SignalsThatWereOrderedAreSentBeforeTheEnd) {
  const auto killed = Job(100, SIGKILL);
  const auto other = Job(1, SIGKILL);
  table_.Hold();
  signals_->Send(kJob, killed, Count());
  table_.AwaitHeld();
  signals_->Send(kOther, other, Count());
  table_.ReleaseSoon();
  signals_.reset();
  AwaitNone(killed);
  AwaitNone(other);
  EXPECT_TRUE(told_.empty());
}

}  // namespace
}  // namespace gpuman::jobs
