#include "cli/wait.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

#include "api/test_server.h"
#include "base/fd.h"

namespace gpuman::cli {
namespace {

class NextDaemonTest : public ::testing::Test {
 protected:
  NextDaemonTest() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    wake_ = base::Fd(ends[0]);
    waker_ = base::Fd(ends[1]);
    context_.socket = daemon_.socket().string();
  }

  api::WaitCancellation Wake() {
    return {wake_.get(), [this] {
              ++wakes_;
              return false;
            }};
  }

  const base::Error busy_{base::ErrorCode::kUnavailable, "too many requests wait", ""};
  api::TestServer daemon_{{api::TestServer::Answer(200, "{}")}};
  std::ostringstream out_, err_;
  CommandContext context_{{out_, err_, {}, {}, [](const char*) { return std::nullopt; }}};
  base::Fd wake_, waker_;
  int wakes_ = 0;
};

TEST_F(NextDaemonTest, TheDaemonThatIsThereIsTheNext) {
  const auto next = NextDaemon(context_, busy_, Wake());
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ(next->socket(), daemon_.socket());
}

// A daemon that answers that it is busy is there, and would be asked again at once, without end.
TEST_F(NextDaemonTest, APauseComesBeforeTheFirstLook) {
  ASSERT_EQ(::write(waker_.get(), "x", 1), 1);
  const auto next = NextDaemon(context_, busy_, Wake());
  ASSERT_FALSE(next) << "the pause would have been interrupted";
  EXPECT_EQ(next.error().code, base::ErrorCode::kConflict);
  EXPECT_EQ(wakes_, 1);
  EXPECT_TRUE(daemon_.requests().empty());
}

TEST_F(NextDaemonTest, AnotherErrorIsReturnedAtOnce) {
  const auto next = NextDaemon(context_, {base::ErrorCode::kNotFound, "no job 7", ""}, Wake());
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().message, "no job 7");
  EXPECT_EQ(err_.str(), "");
}

}  // namespace
}  // namespace gpuman::cli
