#include "daemon/jobs/log_reader_pool.h"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <future>
#include <string>
#include <thread>

namespace gpuman::daemon {
namespace {

class LogReaderPoolTest : public testing::Test {
 protected:
  // Runs the loop until so many tasks have ended.
  void Await(std::size_t count) {
    loop_.restart();  // it stopped when it had nothing to do
    const auto work = boost::asio::make_work_guard(loop_);
    while (done_.size() < count) loop_.run_one();
  }
  void Do(
      uid_t user, char name, std::function<void()> read = [] {}) {
    readers_.Do(user, std::move(read), [this, name] { done_ += name; });
  }

  boost::asio::io_context loop_;
  LogReaderPool readers_{loop_};
  std::string done_;
};

TEST_F(LogReaderPoolTest, ReadsOnAThreadAndTellsOnTheLoop) {
  std::thread::id reader, teller;
  readers_.Do(
      1, [&] { reader = std::this_thread::get_id(); },
      [&] {
        teller = std::this_thread::get_id();
        done_ += 'x';
      });
  Await(1);
  EXPECT_NE(reader, std::this_thread::get_id());
  EXPECT_EQ(teller, std::this_thread::get_id());
}

// The user's first task hangs. A second thread is free, and the same user has more tasks.
TEST_F(LogReaderPoolTest, AUserWhoseReadTakesLongHoldsUpNobodyElse) {
  std::promise<void> stuck;
  Do(1, 'a', [&] { stuck.get_future().wait(); });
  for (const char name : {'b', 'c', 'd'}) Do(1, name);
  for (const char name : {'X', 'Y'}) Do(2, name);
  Do(3, 'Z');
  Await(3);
  EXPECT_EQ(done_, "XZY") << "users take turns";
  stuck.set_value();
  Await(7);
  EXPECT_EQ(done_, "XZYabcd");
}

TEST(LogReaderPool, TheEndDropsWaitingWork) {
  boost::asio::io_context loop;
  int told = 0;
  {
    LogReaderPool readers(loop);
    for (int i = 0; i < 10; ++i)
      readers.Do(
          1, [] {}, [&] { ++told; });
  }
  loop.run();
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace gpuman::daemon
