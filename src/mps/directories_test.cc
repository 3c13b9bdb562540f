#include "mps/directories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::mps {
namespace {

using ::testing::Contains;
using ::testing::Pair;

constexpr const char* kUuid = "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6";

TEST(MpsDirectories, EachGpuHasItsOwn) {
  const auto directories = DirectoriesOf("/run/gpuman/mps", kUuid);
  EXPECT_EQ(directories.pipe, std::string("/run/gpuman/mps/") + kUuid + "/pipe");
  EXPECT_NE(directories.pipe, DirectoriesOf("/run/gpuman/mps", "GPU-other").pipe);
  EXPECT_TRUE(CheckLength(directories));
  EXPECT_FALSE(CheckLength(DirectoriesOf("/run/" + std::string(60, 'x'), kUuid)));
}

TEST(MpsDirectories, TheDaemonSeesOneGpuAndItsClientsFindIt) {
  const auto directories = DirectoriesOf("/run/gpuman/mps", kUuid);
  const auto daemon = DaemonVariables(directories, kUuid);
  EXPECT_THAT(daemon, Contains(Pair("CUDA_VISIBLE_DEVICES", kUuid)));
  const auto client = ClientVariables(directories, 25.0);
  EXPECT_THAT(client, Contains(Pair("CUDA_MPS_PIPE_DIRECTORY", directories.pipe.string())));
  EXPECT_THAT(daemon, Contains(Pair("CUDA_MPS_PIPE_DIRECTORY", directories.pipe.string())));
  EXPECT_THAT(client, Contains(Pair("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25")));
  EXPECT_EQ(ClientVariables(directories, std::nullopt).size(), 2u);
}

TEST(MpsDirectories, ANamespaceHasASocketOfItsOwnBelow) {
  const auto directories = DirectoriesOf("/run/gpuman/mps", kUuid);
  const auto inner = DirectoriesIn(directories, "u4294967294", "job9999999");
  ASSERT_TRUE(inner);
  EXPECT_EQ(inner->pipe, directories.pipe / "u4294967294" / "job9999999");
  EXPECT_EQ(inner->logs, directories.logs);
  EXPECT_FALSE(DirectoriesIn(DirectoriesOf("/run/" + std::string(40, 'x'), kUuid), "u1000", "job7000000"));
}

}  // namespace
}  // namespace gpuman::mps
