#include "spec/file_name.h"

#include <gtest/gtest.h>

namespace gpuman::spec {
namespace {

TEST(ExpandFileName, ReplacesEachPlaceholder) {
  EXPECT_EQ(ExpandFileName("o/%x-%A_%a.%j", {.job = 14, .array = 12, .task = 2, .name = "train"}),
            "o/train-12_2.14");
  EXPECT_EQ(ExpandFileName("%A_%a", {.job = 14}), "14_0") << "a job without an array";
}

TEST(ExpandFileName, LeavesWhatIsNoPlaceholder) {
  EXPECT_EQ(ExpandFileName("100%%.%q.%", {.job = 1}), "100%.%q.%");
  EXPECT_EQ(ExpandFileName("", {.job = 1}), "");
}

}  // namespace
}  // namespace gpuman::spec
