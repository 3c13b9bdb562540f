#include "base/paths.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "base/test_temp_dir.h"

namespace gpuman::base {
namespace {

EnvironmentLookup From(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}

TEST(UserPaths, FollowTheXdgVariables) {
  const auto paths = UserPaths(
      From({{"HOME", "/h"}, {"XDG_CONFIG_HOME", "/c"}, {"XDG_STATE_HOME", "/s"}, {"XDG_RUNTIME_DIR", "/r"}}),
      1000, "");
  EXPECT_EQ(paths.config, "/c/gpuman/gpumand.toml");
  EXPECT_EQ(paths.socket, "/r/gpuman/gpumand.sock");
  EXPECT_EQ(paths.state, "/s/gpuman");
}

TEST(UserPaths, FallBackToHomeAndTmp) {
  const TempDir root;
  const auto paths = UserPaths(From({{"HOME", "/h"}}), 4242, "", root.path());
  EXPECT_EQ(paths.config, "/h/.config/gpuman/gpumand.toml");
  EXPECT_EQ(paths.state, "/h/.local/state/gpuman");
  EXPECT_EQ(paths.socket, root.path() / "tmp/gpuman-4242/gpumand.sock");
  EXPECT_EQ(UserPaths(From({}), 1, "/from-passwd").state, "/from-passwd/.local/state/gpuman");
}

TEST(UserPaths, TakeTheRuntimeDirectoryOfTheUserWhereItExists) {
  const TempDir root;
  const auto mine = root.path() / "run/user" / std::to_string(::geteuid());
  std::filesystem::create_directories(mine);
  EXPECT_EQ(UserPaths(From({{"HOME", "/h"}}), ::geteuid(), "", root.path()).socket,
            mine / "gpuman/gpumand.sock");
  std::filesystem::create_directories(root.path() / "run/user/4242");
  EXPECT_EQ(UserPaths(From({{"HOME", "/h"}}), 4242, "", root.path()).socket,
            root.path() / "tmp/gpuman-4242/gpumand.sock");
}

TEST(UserPaths, IgnoreRelativeValues) {
  EXPECT_EQ(UserPaths(From({{"HOME", "/h"}, {"XDG_STATE_HOME", "here"}}), 1, "").state,
            "/h/.local/state/gpuman");
}

TEST(MakePrivateDirectory, RefusesWhatOthersCouldHaveMade) {
  const TempDir root;
  const auto path = root.path() / "a/b";
  ASSERT_TRUE(MakePrivateDirectory(path));
  ASSERT_TRUE(MakePrivateDirectory(path));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
  const auto result = MakePrivateDirectory(path);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kPermissionDenied);
  std::filesystem::create_directory_symlink(path, root.path() / "link");
  EXPECT_FALSE(MakePrivateDirectory(root.path() / "link"));
}

TEST(CheckSocketPath, SaysHowLongAPathMayBe) {
  EXPECT_TRUE(CheckSocketPath("/" + std::string(106, 'x')));
  const auto result = CheckSocketPath("/" + std::string(107, 'x'));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("at most 107"), std::string::npos);
  EXPECT_FALSE(CheckSocketPath(""));
}

}  // namespace
}  // namespace gpuman::base
