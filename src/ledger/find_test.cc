#include "ledger/find.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

#include "base/process.h"
#include "ledger/ledgers.h"

namespace gpuman::ledger {
namespace {

constexpr base::JobId kJob{7};

TEST(FindLedger, ComesFromAProcessThatHasIt) {
  Ledgers before;
  ASSERT_TRUE(before.Create(kJob, {}));
  const auto seat = before.Join(kJob, base::SelfId());
  ASSERT_TRUE(seat);
  const std::vector<pid_t> pids{1, ::getpid()};
  auto file = FindLedger(kJob, pids);
  ASSERT_TRUE(file);
  Ledgers after;
  EXPECT_TRUE(after.Adopt(kJob, std::move(*file), {}));
  EXPECT_TRUE(after.Registered(kJob, base::SelfId()));
}

TEST(FindLedger, IsNotThatOfAnotherJobNorAnotherFile) {
  const base::Fd other(::memfd_create("gpuman-ledger-70", MFD_CLOEXEC));
  const base::Fd similar(::memfd_create("gpuman-ledger-7 ", MFD_CLOEXEC));
  const std::vector<pid_t> pids{::getpid(), 0x7fff'ffff};
  EXPECT_FALSE(FindLedger(kJob, pids));
}

// Its descriptors are read in several pieces, between which it is gone.
TEST(FindLedger, IsNobodysWhoEndsMeanwhile) {
  constexpr int kRounds = 20, kDescriptors = 4000;
  for (int round = 0; round < kRounds; ++round) {
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // where the test ends in the middle
      rlimit most{};
      ::getrlimit(RLIMIT_NOFILE, &most);
      most.rlim_cur = most.rlim_max;
      ::setrlimit(RLIMIT_NOFILE, &most);
      for (int i = 0; i < kDescriptors; ++i) (void)!::dup(0);
      (void)!::write(ready[1], "", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    std::thread end([child, round] {
      ::usleep(static_cast<useconds_t>(200 * round));
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    });
    EXPECT_FALSE(FindLedger(kJob, std::vector<pid_t>{child}));
    end.join();
    ::close(ready[0]);
    ::close(ready[1]);
  }
}

}  // namespace
}  // namespace gpuman::ledger
