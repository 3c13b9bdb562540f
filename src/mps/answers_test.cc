#include "mps/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(MpsAnswers, APidALineIsAListAndNothingIsAnEmptyOne) {
  EXPECT_THAT(*ParsePids("4711\n4712\n"), ElementsAre(4711, 4712));
  EXPECT_THAT(*ParsePids("4711"), ElementsAre(4711));
  EXPECT_THAT(*ParsePids(" 4711 \r\n\n"), ElementsAre(4711));
  EXPECT_THAT(*ParsePids(""), IsEmpty());
}

TEST(MpsAnswers, ASentenceInsteadOfAListIsARefusalWithThatSentence) {
  const auto pids = ParsePids("Server 12 not found\n");
  ASSERT_FALSE(pids);
  EXPECT_EQ(pids.error().code, base::ErrorCode::kConflict);
  EXPECT_THAT(pids.error().message, HasSubstr("Server 12 not found"));
  EXPECT_FALSE(ParsePids("-4"));
  EXPECT_FALSE(ParsePids("0"));
  EXPECT_FALSE(ParsePids("99999999999999999999"));
}

TEST(MpsAnswers, ARefusalBringsNoControlCharactersAndNoBook) {
  const auto pids = ParsePids("\x1b[31mred\n" + std::string(10'000, 'x'));
  ASSERT_FALSE(pids);
  EXPECT_EQ(pids.error().message.find('\x1b'), std::string::npos);
  EXPECT_LT(pids.error().message.size(), 300u);
}

TEST(MpsAnswers, PercentagesAreNumbersUpToAHundred) {
  EXPECT_EQ(*ParsePercentage("50.0\n"), 50.0);
  EXPECT_EQ(*ParsePercentage("100"), 100.0);
  for (const char* wrong : {"", "101", "-1", "nan", "inf", "fifty", "50%"})
    EXPECT_FALSE(ParsePercentage(wrong)) << wrong;
}

TEST(MpsAnswers, MemoryLimitsHaveUnitsAndZeroIsNone) {
  EXPECT_EQ(*ParseMemoryLimit("8192M\n"), base::GiB(8));
  EXPECT_EQ(*ParseMemoryLimit("8G"), base::GiB(8));
  EXPECT_EQ(*ParseMemoryLimit("8GB"), base::GiB(8));
  EXPECT_EQ(*ParseMemoryLimit("1048576"), base::MiB(1));
  EXPECT_EQ(*ParseMemoryLimit("0"), std::nullopt);
  EXPECT_EQ(*ParseMemoryLimit(""), std::nullopt);
  EXPECT_FALSE(ParseMemoryLimit("no limit"));
  EXPECT_FALSE(ParseMemoryLimit("99999999999999999999G"));
  EXPECT_FALSE(ParseMemoryLimit("18446744073709551615T"));
}

TEST(MpsAnswers, SettingAnswersNothingOrTheValue) {
  for (const char* fine : {"", "\n", "50.0\n", "8192M"}) EXPECT_TRUE(ParseDone(fine)) << fine;
  EXPECT_FALSE(ParseDone("Invalid percentage"));
}

TEST(MpsAnswers, AClientsVariablesAreOfItsFirstDevice) {
  EXPECT_EQ(MemoryVariable("0=8G,1=512M"), base::GiB(8));
  EXPECT_EQ(MemoryVariable("1=512M, 0=1G"), base::GiB(1));
  EXPECT_EQ(MemoryVariable("1=512M"), std::nullopt);
  EXPECT_EQ(MemoryVariable("0=much"), std::nullopt);
  EXPECT_EQ(ThreadsVariable("25"), 25.0);
  EXPECT_EQ(ThreadsVariable("all"), std::nullopt);
}

}  // namespace
}  // namespace gpuman::mps
