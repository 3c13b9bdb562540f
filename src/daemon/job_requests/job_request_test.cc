#include "daemon/job_requests/job_request.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace gpuman::daemon {
namespace {

constexpr uid_t kUser = 61234;

// A process of the user that lives as long as this object.
class ProcessOfUser {
 public:
  ProcessOfUser() {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const char byte = ::setresuid(kUser, kUser, kUser) == 0 ? 1 : 0;
      (void)!::write(ready[1], &byte, 1);
      for (;;) ::pause();
    }
    char is_user = 0;
    EXPECT_EQ(::read(ready[0], &is_user, 1), 1);
    EXPECT_EQ(is_user, 1);
    for (const int end : ready) ::close(end);
    id_ = base::IdentityOf(pid_).value_or(base::ProcessId{});
  }
  ~ProcessOfUser() { End(); }
  void End() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  base::ProcessId id() const { return id_; }

 private:
  pid_t pid_ = 0;
  base::ProcessId id_;
};

TEST(Tag, TagThatLooksLikeJobNumberIsRefused) {
  for (const char* tag : {"7", "7_3", "5-9", "@", "@~1", "slurm-3", "slurm-3_1"}) {
    const auto checked = CheckTag(tag);
    ASSERT_FALSE(checked) << tag;
    EXPECT_EQ(checked.error().message,
              std::string("the tag '") + tag + "' could be the number of a job; add a letter");
  }
  for (const char* tag :
       {"train-7", "slurm-7.0", "slurm-7-1", "slurm-", "slurm-x", "2026-10-07", "5-a", "7.3", "a@b"})
    EXPECT_TRUE(CheckTag(tag)) << tag;
  EXPECT_FALSE(CheckTag("a b"));
  EXPECT_EQ(CheckTag("-i").error().message, "the tag '-i' begins with '-', as options do");
  EXPECT_FALSE(CheckTag(std::string(65, 'a')));
}

class ResourceLimitsOfCallerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  }
  static base::Result<jobs::ResourceLimits> Ask(const ProcessOfUser& process, base::ProcessId connected) {
    return ResourceLimitsOf(http::Peer{kUser, kUser, process.id().pid},
                            base::Peer(connected, kUser, base::Fd()));
  }
};

TEST_F(ResourceLimitsOfCallerTest, LimitsAreReadFromConnectedProcess) {
  const ProcessOfUser process;
  const auto limits = Ask(process, process.id());
  ASSERT_TRUE(limits);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  EXPECT_EQ(limits->at(RLIMIT_NOFILE),
            (std::pair<std::uint64_t, std::uint64_t>{files.rlim_cur, files.rlim_max}));
}

// The process that connected has ended, and another process of the same user has its pid, with limits of its
// own.
TEST_F(ResourceLimitsOfCallerTest, ReusedPidIsConflict) {
  const ProcessOfUser process;
  auto before = process.id();
  before.start_time -= 1;
  EXPECT_EQ(Ask(process, before).error().code, base::ErrorCode::kConflict);
}

TEST_F(ResourceLimitsOfCallerTest, EndedProcessIsConflict) {
  ProcessOfUser process;
  process.End();
  EXPECT_EQ(Ask(process, process.id()).error().code, base::ErrorCode::kConflict);
  const http::Peer peer{kUser, kUser, process.id().pid};
  EXPECT_EQ(ResourceLimitsOf(peer, base::Fail(base::ErrorCode::kNotFound, "ended")).error().code,
            base::ErrorCode::kConflict);
  EXPECT_EQ(ResourceLimitsOf(peer, base::Fail(base::ErrorCode::kExhausted, "full")).error().code,
            base::ErrorCode::kExhausted);
}

}  // namespace
}  // namespace gpuman::daemon
