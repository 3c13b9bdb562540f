#include "ledger/find.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/process.h"
#include "base/test_temp_dir.h"
#include "ledger/ledgers.h"

namespace gpuman::ledger {
namespace {

constexpr base::JobId kJob{7};

TEST(FindLedger, ComesFromAProcessThatHasIt) {
  Ledgers before;
  ASSERT_TRUE(before.Create(kJob, {}));
  const auto joined = before.Join(kJob, base::SelfId());
  ASSERT_TRUE(joined);
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
    const auto joined = before.Join(kJob, base::SelfId());
    ASSERT_TRUE(joined);
    mapped =
        ::mmap(nullptr, sizeof(wire::Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, joined->owner.get(), 0);
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

// Runs in a process of its own, which gets its own mounts. Returns whether FindLedger finds such a file; 2:
// it cannot be made here.
int FindBesideAFileOfTheSameName(const std::filesystem::path& directory) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", directory.c_str(), "tmpfs", 0, nullptr) != 0)
    return 2;
  const base::Fd file(
      ::open((directory / "memfd:gpuman-ledger-7 (deleted)").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.ok() || ::umount2(directory.c_str(), MNT_DETACH) != 0) return 2;
  const std::vector<pid_t> pids{::getpid()};
  return FindLedger(kJob, pids) ? 1 : 0;
}

TEST(FindLedger, IsNoFileOfAFileSystem) {
  const base::TempDir dir;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(FindBesideAFileOfTheSameName(dir.path()));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "needs root, for a mount";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace gpuman::ledger
