#include "daemon/shims/context_costs.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using base::MiB;

TEST(ContextCosts, CostsReadBackAsWritten) {
  ContextCosts costs;
  EXPECT_TRUE(costs.Learn("NVIDIA \"H200\"", "580.1", MiB(520)));
  EXPECT_FALSE(costs.Learn("NVIDIA \"H200\"", "580.1", MiB(520))) << "known";
  const auto read = ContextCosts::Parse(costs.Text());
  EXPECT_EQ(read.Of("NVIDIA \"H200\"", "580.1"), MiB(520));
  EXPECT_EQ(read.Of("NVIDIA A100", "580.1"), std::nullopt);
}

TEST(ContextCosts, CostsOfAnotherDriverVersionAreUnknown) {
  ContextCosts costs;
  costs.Learn("NVIDIA H200", "570.1", MiB(500));
  EXPECT_EQ(costs.Of("NVIDIA H200", "580.1"), std::nullopt);
  EXPECT_TRUE(costs.Learn("NVIDIA H200", "580.1", MiB(520)));
  EXPECT_EQ(costs.Of("NVIDIA H200", "570.1"), std::nullopt);
}

TEST(ContextCosts, DamagedFileIsReadAsEmpty) {
  for (const char* text : {"", "{", "[]", "5", R"({"a":1})", R"({"a":{"driver":5,"bytes":6}})",
                           R"({"a":{"driver":"b","bytes":-6}})", R"({"a":{"driver":"b"}})"})
    EXPECT_EQ(ContextCosts::Parse(text).Text(), ContextCosts().Text()) << text;
}

}  // namespace
}  // namespace gpuman::daemon
