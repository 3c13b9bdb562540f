#include <gtest/gtest.h>

#include "driver/abi/abi_facts.h"

namespace gpuman::driver::abi {
Facts OurNvmlFacts();
}
gpuman::driver::abi::Facts VendorNvmlFacts();

TEST(NvmlDeclarations, AgreeWithTheVendorsHeader) {
  const auto ours = gpuman::driver::abi::OurNvmlFacts();
  const auto vendors = VendorNvmlFacts();
  ASSERT_GT(ours.size(), 300u);
  ASSERT_EQ(ours.size(), vendors.size());
  for (const auto& [name, fact] : ours) EXPECT_EQ(fact, vendors.at(name)) << name;
}
