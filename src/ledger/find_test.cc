#include "ledger/find.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

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

}  // namespace
}  // namespace gpuman::ledger
