#include "base/boot.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace gpuman::base {
namespace {

TEST(BootId, BootIdIsKnownEvenWithoutFreeDescriptors) {
  const auto boot = BootId();
  EXPECT_EQ(boot.size(), 36U);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto again = BootId();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(again, boot);
}

}  // namespace
}  // namespace gpuman::base
