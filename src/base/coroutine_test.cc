#include "base/coroutine.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpuman::base {
namespace {

using Done = std::function<void(int)>;

// Records what a coroutine did, and when its frame was destroyed.
struct Log {
  std::vector<std::string> lines;
  int frames = 0;
};
struct OfFrame {
  explicit OfFrame(Log& of) : log(of) { ++log.frames; }
  ~OfFrame() { --log.frames; }
  OfFrame(const OfFrame&) = delete;
  OfFrame& operator=(const OfFrame&) = delete;
  Log& log;
};

CallbackAwaitable<int> Next(Done& asked) {
  return CallbackAwaitable<int>([&asked](Done done) { asked = std::move(done); });
}

DetachedCoroutine Twice(Log& log, Done& asked) {
  const OfFrame frame(log);
  const int first = co_await Next(asked);
  log.lines.push_back("first " + std::to_string(first));
  const int second = co_await Next(asked);
  log.lines.push_back("second " + std::to_string(second));
}

TEST(Coroutine, GoesOnWithEachCallback) {
  Log log;
  Done asked;
  Twice(log, asked);
  EXPECT_TRUE(log.lines.empty());
  std::exchange(asked, nullptr)(7);
  EXPECT_EQ(log.lines, std::vector<std::string>{"first 7"});
  EXPECT_EQ(log.frames, 1);
  std::exchange(asked, nullptr)(8);
  EXPECT_EQ(log.lines, (std::vector<std::string>{"first 7", "second 8"}));
  EXPECT_EQ(log.frames, 0);
}

TEST(Coroutine, EndsWithACallbackThatIsNeverCalled) {
  Log log;
  {
    Done asked;
    Twice(log, asked);
    std::exchange(asked, nullptr)(7);
    const Done copy = asked;
    asked = nullptr;
    EXPECT_EQ(log.frames, 1) << "a copy of the callback is left";
  }
  EXPECT_EQ(log.frames, 0);
  EXPECT_EQ(log.lines, std::vector<std::string>{"first 7"});
}

DetachedCoroutine AtOnce(Log& log, int times) {
  const OfFrame frame(log);
  for (int i = 0; i < times; ++i) {
    const int got = co_await CallbackAwaitable<int>([i](const Done& done) { done(i); });
    log.lines.push_back(std::to_string(got));
  }
}

TEST(Coroutine, GoesOnWhereTheCallbackComesAtOnce) {
  Log log;
  AtOnce(log, 3);
  EXPECT_EQ(log.lines, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(log.frames, 0);
}

}  // namespace
}  // namespace gpuman::base
