#include "ledger/wire/transfer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include "base/fd.h"

namespace gpuman::ledger::wire {
namespace {

constexpr int kWaitMs = 50;

// The other side acts, but only after so many signals. kLate is far more than come before a wait that ends in
// time.
constexpr int kSoon = 10, kLate = 20'000;
volatile sig_atomic_t signals = 0;
int patience = kLate, other = -1;
bool other_reads = false;

void OnAlarm(int) {
  const int before = errno;
  char byte = 0;
  signals = signals + 1;
  if (signals == patience) {
    if (other_reads)
      while (::recv(other, &byte, 1, MSG_DONTWAIT) > 0) continue;
    else
      (void)::send(other, &byte, 1, MSG_DONTWAIT);
  }
  errno = before;
}

// Two ends of a connection, and a timer that interrupts each wait after a millisecond.
class AProgramWithATimer : public testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    own_ = base::Fd(pair[0]);
    other_ = base::Fd(pair[1]);
    other = pair[1];
    signals = 0;
  }
  void TearDown() override {
    const itimerval none{};
    ::setitimer(ITIMER_REAL, &none, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }

  void StartTimer(int until, bool reads) {
    patience = until;
    other_reads = reads;
    struct sigaction action {};  // without SA_RESTART
    action.sa_handler = OnAlarm;
    ASSERT_EQ(::sigaction(SIGALRM, &action, &before_), 0);
    const itimerval each{{0, 1000}, {0, 1000}};
    ASSERT_EQ(::setitimer(ITIMER_REAL, &each, nullptr), 0);
  }

  base::Fd own_, other_;

 private:
  struct sigaction before_ {};
};

TEST_F(AProgramWithATimer, GivesUpOneWhoSaysNothing) {
  StartTimer(kLate, false);
  char byte = 0;
  int descriptors[kMaxParts];
  unsigned count = 0;
  EXPECT_LT(ReceiveWith(own_.get(), &byte, 1, descriptors, count, kWaitMs), 0);
  EXPECT_LT(signals, kLate);
}

TEST_F(AProgramWithATimer, GivesUpOneWhoDoesNotRead) {
  const char byte = 0;
  while (SendWith(own_.get(), &byte, 1, nullptr, 0, 0)) continue;
  StartTimer(kLate, true);
  EXPECT_FALSE(SendWith(own_.get(), &byte, 1, nullptr, 0, kWaitMs));
  EXPECT_LT(signals, kLate);
}

TEST_F(AProgramWithATimer, WaitsOnWhereTheWaitingHasNoEnd) {
  StartTimer(kSoon, false);
  char byte = 1;
  int descriptors[kMaxParts];
  unsigned count = 0;
  EXPECT_EQ(ReceiveWith(own_.get(), &byte, 1, descriptors, count, -1), 1);
  EXPECT_GE(signals, kSoon);
}

}  // namespace
}  // namespace gpuman::ledger::wire
