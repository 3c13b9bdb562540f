#include "base/own_directory.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/test_temp_dir.h"

namespace gpuman::base {
namespace {

TEST(OwnDirectory, IsMadeOnceAndBelievedAfterwards) {
  const TempDir dir;
  EXPECT_TRUE(MakeOwnDirectory(dir.path() / "own", 0711));
  EXPECT_TRUE(MakeOwnDirectory(dir.path() / "own", 0711));
  EXPECT_EQ(CheckOwnDirectory(dir.path() / "none").error().code, ErrorCode::kNotFound);
}

TEST(OwnDirectory, IsNoneWhereOthersCouldHaveMadeOrCanChangeIt) {
  const TempDir dir;
  ASSERT_TRUE(MakeOwnDirectory(dir.path() / "own", 0711));
  ASSERT_EQ(::symlink("own", (dir.path() / "link").c_str()), 0);
  std::ofstream(dir.path() / "file") << "";
  for (const char* name : {"link", "file"})
    EXPECT_EQ(MakeOwnDirectory(dir.path() / name, 0711).error().code, ErrorCode::kPermissionDenied) << name;
  ASSERT_EQ(::chmod((dir.path() / "own").c_str(), 0777), 0);
  EXPECT_EQ(CheckOwnDirectory(dir.path() / "own").error().code, ErrorCode::kPermissionDenied);
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chmod((dir.path() / "own").c_str(), 0711), 0);
  ASSERT_EQ(::chown((dir.path() / "own").c_str(), 65534, 65534), 0);
  EXPECT_EQ(CheckOwnDirectory(dir.path() / "own").error().code, ErrorCode::kPermissionDenied);
}

}  // namespace
}  // namespace gpuman::base
