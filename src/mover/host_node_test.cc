#include "mover/host_node.h"

#include <gtest/gtest.h>

namespace gpuman::mover {
namespace {

TEST(HostNode, IsWhatTheDriverSaysElseWhatTheBusSaysElseNone) {
  EXPECT_EQ(HostNodeOf(1, 0), 1);
  EXPECT_EQ(HostNodeOf(0, std::nullopt), 0);
  EXPECT_EQ(HostNodeOf(-1, 1), 1);
  EXPECT_EQ(HostNodeOf(std::nullopt, 1), 1) << "a driver that does not know the question";
  EXPECT_EQ(HostNodeOf(-1, -1), std::nullopt);
  EXPECT_EQ(HostNodeOf(std::nullopt, std::nullopt), std::nullopt);
}

}  // namespace
}  // namespace gpuman::mover
