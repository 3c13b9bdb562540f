#include "base/nearest.h"

#include <gtest/gtest.h>

namespace gpuman::base {
namespace {

TEST(Nearest, FindsSwappedDroppedAndChangedCharacters) {
  const std::vector<std::string> words{"train", "infer", "serve-llm"};
  EXPECT_EQ(Nearest("trian", words), "train");
  EXPECT_EQ(Nearest("tran", words), "train");
  EXPECT_EQ(Nearest("serve-lln", words), "serve-llm");
}

TEST(Nearest, StaysSilentWhereNothingIsNear) {
  EXPECT_EQ(Nearest("bench", {"train", "infer"}), std::nullopt);
  EXPECT_EQ(Nearest("", {"train"}), std::nullopt);
  EXPECT_EQ(Nearest("x", {}), std::nullopt);
}

}  // namespace
}  // namespace gpuman::base
