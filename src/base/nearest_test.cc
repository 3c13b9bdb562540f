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

TEST(Nearest, PrefersAWordOfTheSameLength) {
  EXPECT_EQ(Nearest("--gpsu", {"--gpu", "--gpus"}), "--gpus");
  EXPECT_EQ(Nearest("--gpsu", {"--gpus", "--gpu"}), "--gpus");
  EXPECT_EQ(Nearest("--gup", {"--gpus", "--gpu"}), "--gpu");
}

TEST(Nearest, PrefersAWordOfWhichALetterIsMissing) {
  EXPECT_EQ(Nearest("staus", {"stats", "status"}), "status");
  EXPECT_EQ(Nearest("staus", {"status", "stats"}), "status");
  EXPECT_EQ(Nearest("stat", {"stats", "start"}), "stats");
}

TEST(Nearest, StaysSilentWhereNothingIsNear) {
  EXPECT_EQ(Nearest("bench", {"train", "infer"}), std::nullopt);
  EXPECT_EQ(Nearest("", {"train"}), std::nullopt);
  EXPECT_EQ(Nearest("x", {}), std::nullopt);
}

}  // namespace
}  // namespace gpuman::base
