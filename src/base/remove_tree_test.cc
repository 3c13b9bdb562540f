#include "base/remove_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <iterator>
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

// Puts `depth` directories into `tree`, one in the other, with a file in each tenth. No path is so long.
void MakeDeep(const std::filesystem::path& tree, int depth) {
  ASSERT_TRUE(MakeDirectories(tree));
  Fd at = OpenFile(tree, O_RDONLY | O_DIRECTORY).value();
  for (int i = 0; i < depth; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), "in", 0700), 0);
    at = Fd(::openat(at.get(), "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(at.ok());
    if (i % 10 != 0) continue;
    ASSERT_TRUE(Fd(::openat(at.get(), "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).ok());
  }
}

TEST(RemoveTree, OpensAFewFilesHoweverDeepTheTreeIs) {
  constexpr int kDepth = 5'000;
  constexpr rlim_t kDescriptors = 256;
  const TempDir dir;
  const auto tree = dir.path() / "tree";
  MakeDeep(tree, kDepth);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = kDescriptors;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto removed = RemoveTree(tree);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_FALSE(std::filesystem::exists(tree));
}

TEST(RemoveTree, GoesOnWhereThePartBeforeEnded) {
  const TempDir dir;
  const auto tree = dir.path() / "tree";
  MakeDeep(tree, 400);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(OpenFile(tree / std::to_string(i), O_WRONLY | O_CREAT));
  int parts = 0;
  for (bool gone = false; !gone; ++parts) {
    ASSERT_LT(parts, 1'000) << "a part does not get further";
    const auto part = RemoveSomeOfTree(tree, 100);
    ASSERT_TRUE(part) << part.error().message;
    gone = *part;
    EXPECT_EQ(gone, !std::filesystem::exists(tree));
  }
  EXPECT_GE(parts, 5) << "a part has a bound";
}

TEST(RemoveTree, FollowsNoSymbolicLink) {
  const TempDir dir;
  const auto outside = dir.path() / "outside", tree = dir.path() / "tree";
  ASSERT_TRUE(MakeDirectories(outside / "kept"));
  ASSERT_TRUE(MakeDirectories(tree / "a"));
  std::filesystem::create_directory_symlink(outside, tree / "link");
  std::filesystem::create_directory_symlink(outside, tree / "a" / "link");
  EXPECT_TRUE(RemoveTree(tree));
  EXPECT_FALSE(std::filesystem::exists(tree));
  std::filesystem::create_directory_symlink(outside, tree);
  EXPECT_TRUE(RemoveTree(tree)) << "the link itself goes";
  EXPECT_FALSE(std::filesystem::is_symlink(tree));
  EXPECT_TRUE(std::filesystem::exists(outside / "kept"));
}

// The other thread puts a link that leads out in the place of a directory, and takes directories out of the
// tree and back, while they are gone through.
TEST(RemoveTree, StaysInsideWhileAnotherThreadMovesDirectories) {
  const TempDir dir;
  const auto outside = dir.path() / "outside", aside = dir.path() / "aside", tree = dir.path() / "tree";
  ASSERT_TRUE(MakeDirectories(outside));
  for (int i = 0; i < 50; ++i)
    ASSERT_TRUE(OpenFile(outside / ("file" + std::to_string(i)), O_WRONLY | O_CREAT));
  for (int round = 0; round < 4; ++round) {
    for (const char* name : {"a", "b", "c"})
      for (int i = 0; i < 30; ++i)
        ASSERT_TRUE(MakeDirectories(tree / name / "in" / std::to_string(i) / "deeper"));
    std::atomic<bool> over = false;
    std::thread other([&] {
      for (int i = 0; !over; ++i) {
        const auto folder = tree / (i % 2 == 0 ? "a" : "b") / "in";
        if (::rename(folder.c_str(), aside.c_str()) != 0) continue;
        if (::symlink(outside.c_str(), folder.c_str()) == 0) ::unlink(folder.c_str());
        ::rename(aside.c_str(), folder.c_str());
      }
    });
    for (bool gone = false; !gone;) {
      const auto part = RemoveSomeOfTree(tree, 1'000'000);
      if (part) gone = *part;
    }
    over = true;
    other.join();
    EXPECT_FALSE(std::filesystem::exists(tree));
    EXPECT_TRUE(RemoveTree(aside));
    const std::filesystem::directory_iterator there(outside);
    EXPECT_EQ(std::distance(begin(there), end(there)), 50);
  }
}

}  // namespace
}  // namespace gpuman::base
