#include "ledger/find.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
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

TEST(FindLedger, ComesFromAProcessThatClosedWhatItDidNotOpen) {
  const auto reads_mappings = [] {
    std::error_code error;
    const std::filesystem::directory_iterator first("/proc/self/map_files", error);
    return !error && base::Fd(::open(first->path().c_str(), O_PATH | O_CLOEXEC)).ok();
  };
  if (!reads_mappings()) GTEST_SKIP() << "root alone may open what a process has mapped";
  void* mapped = MAP_FAILED;
  {
    Ledgers before;
    ASSERT_TRUE(before.Create(kJob, {}));
    const auto seat = before.Join(kJob, base::SelfId());
    ASSERT_TRUE(seat);
    mapped = ::mmap(nullptr, sizeof(wire::Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, seat->owner.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
  }
  const std::vector<pid_t> pids{::getpid()};
  auto file = FindLedger(kJob, pids);
  ASSERT_TRUE(file);
  Ledgers after;
  EXPECT_TRUE(after.Adopt(kJob, std::move(*file), {}));
  EXPECT_TRUE(after.Registered(kJob, base::SelfId()));
  ::munmap(mapped, sizeof(wire::Ledger));
}

TEST(FindLedger, IsNotThatOfAnotherJobNorAnotherFile) {
  const base::Fd other(::memfd_create("gpuman-ledger-70", MFD_CLOEXEC));
  const base::Fd similar(::memfd_create("gpuman-ledger-7 ", MFD_CLOEXEC));
  const std::vector<pid_t> pids{::getpid(), 0x7fff'ffff};
  EXPECT_FALSE(FindLedger(kJob, pids));
}

}  // namespace
}  // namespace gpuman::ledger
