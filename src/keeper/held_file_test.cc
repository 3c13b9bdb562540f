#include "keeper/held_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_temp_dir.h"
#include "keeper/client.h"

namespace gpuman::keeper {
namespace {

base::Fd MemoryOf(const std::string& bytes) {
  base::Fd file(::memfd_create("held", MFD_CLOEXEC));
  EXPECT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return file;
}

TEST(HeldFile, FileIsSavedWholeWithHolesForZeros) {
  const base::TempDir dir;
  std::string bytes(1 << 20, '\0');
  bytes.front() = 'a';
  bytes[500'000] = 'b';
  bytes += "the last page is shorter";
  ASSERT_TRUE(SaveHeld(MemoryOf(bytes).get(), dir.path()));
  EXPECT_EQ(ReadSavedHeld(dir.path()).value(), bytes);
  struct stat status {};
  ASSERT_EQ(::stat((dir.path() / kHeldFile).c_str(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 64 * 1024);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(HeldFile, LaterSaveReplacesTheOneBefore) {
  const base::TempDir dir;
  ASSERT_TRUE(SaveHeld(MemoryOf("a longer one").get(), dir.path()));
  ASSERT_TRUE(SaveHeld(MemoryOf("short").get(), dir.path()));
  EXPECT_EQ(ReadSavedHeld(dir.path()).value(), "short");
  RemoveSavedHeld(dir.path());
  EXPECT_EQ(ReadSavedHeld(dir.path()).error().code, base::ErrorCode::kNotFound);
  RemoveSavedHeld(dir.path());
}

TEST(HeldFile, OtherFileTypesAndLargeFilesAreRefused) {
  const base::TempDir dir;
  EXPECT_EQ(CheckHeld(-1).error().code, base::ErrorCode::kInvalidArgument);
  const base::Fd device(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(CheckHeld(device.get()).error().code, base::ErrorCode::kInvalidArgument);
  const base::Fd large(::memfd_create("held", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(large.get(), kMaxHeld + 1), 0);
  EXPECT_EQ(CheckHeld(large.get()).error().code, base::ErrorCode::kInvalidArgument);
  ASSERT_EQ(::ftruncate(large.get(), kMaxHeld), 0);
  EXPECT_TRUE(CheckHeld(large.get()));
}

TEST(HeldFile, FailedSaveLeavesNoFile) {
  const base::TempDir dir;
  EXPECT_FALSE(SaveHeld(MemoryOf("x").get(), dir.path() / "none"));
  ASSERT_EQ(::mkdir((dir.path() / kHeldFile).c_str(), 0700), 0);
  EXPECT_FALSE(SaveHeld(MemoryOf("x").get(), dir.path()));
  EXPECT_NE(::access((dir.path() / "held.new").c_str(), F_OK), 0);
}

}  // namespace
}  // namespace gpuman::keeper
