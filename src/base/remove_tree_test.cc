#include "base/remove_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/file.h"
#include "base/test_temp_dir.h"

namespace gpuman::base {
namespace {

// A keeper that ends does the same: it unlinks its socket.
TEST(RemoveTree, SucceedsWhileAnotherThreadRemovesFiles) {
  for (int round = 0; round < 20; ++round) {
    const TempDir dir;
    const auto tree = dir.path() / "tree";
    ASSERT_TRUE(MakeDirectories(tree));
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(OpenFile(tree / std::to_string(i), O_WRONLY | O_CREAT));
    std::vector<std::filesystem::path> there;
    for (const auto& entry : std::filesystem::directory_iterator(tree)) there.push_back(entry.path());
    std::thread other([&] {
      for (const auto& path : there) ::unlink(path.c_str());
    });
    const auto removed = RemoveTree(tree);
    other.join();
    EXPECT_TRUE(removed) << removed.error().message;
    EXPECT_FALSE(std::filesystem::exists(tree));
  }
}

TEST(RemoveTree, AMissingPathIsFineAndAPathThatStaysIsNamed) {
  const TempDir dir;
  EXPECT_TRUE(RemoveTree(dir.path() / "nothing"));
  const auto refused = RemoveTree("/proc/self/status");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("/proc/self/status"), std::string::npos);
}

}  // namespace
}  // namespace gpuman::base
