#include "daemon/core/list_shortening.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace gpuman::daemon {
namespace {

using Words = std::vector<std::string>;

std::size_t SizeOf(const Words& words) {
  std::size_t size = 0;
  for (const auto& word : words) size += word.size() + 1;
  return size;
}

TEST(ListShortening, AShortCommandIsWhole) {
  const Words command{"python", "train.py", "", "--epochs=3"};
  const auto listed = ListedCommandOf(command);
  EXPECT_EQ(listed.words, command);
  EXPECT_FALSE(listed.shortened);
}

TEST(ListShortening, ACommandIsShortenedAsAWhole) {
  const Words long_word{"sh", "-c", std::string(130'000, '\x01')};
  auto listed = ListedCommandOf(long_word);
  EXPECT_TRUE(listed.shortened);
  ASSERT_EQ(listed.words.size(), 3u);
  EXPECT_TRUE(listed.words.back().ends_with("…"));
  EXPECT_LE(SizeOf(listed.words), kListedCommand + 4);
  for (const std::size_t size : {0u, 1u, 100u}) {
    listed = ListedCommandOf(Words(100'000, std::string(size, 'x')));
    EXPECT_TRUE(listed.shortened);
    EXPECT_TRUE(listed.words.back().ends_with("…"));
    EXPECT_LE(SizeOf(listed.words), kListedCommand + 4);
  }
}

TEST(ListShortening, NoCharacterIsCutInTwo) {
  for (std::size_t before = 0; before < 4; ++before) {
    std::string text(before, 'x');
    while (text.size() <= 2 * kListedText) text += "😀";
    EXPECT_TRUE(ShortenText(text));
    EXPECT_TRUE(base::IsUtf8(text));
    EXPECT_LE(text.size(), kListedText + 3);
    EXPECT_GT(text.size(), kListedText - 4);
  }
  std::string no_text(2 * kListedText, '\x80');
  EXPECT_TRUE(ShortenText(no_text));
  EXPECT_GT(no_text.size(), kListedText - 4);
}

TEST(ListShortening, SequencesKeepTheirFirstElements) {
  std::vector<int> numbers(kListedElements, 7);
  EXPECT_FALSE(ShortenElements(numbers));
  numbers.push_back(8);
  EXPECT_TRUE(ShortenElements(numbers));
  EXPECT_EQ(numbers, std::vector<int>(kListedElements, 7));
  Words texts{"a", std::string(2 * kListedText, 'b')};
  EXPECT_TRUE(ShortenTexts(texts));
  EXPECT_EQ(texts.front(), "a");
  EXPECT_LE(texts.back().size(), kListedText + 3);
}

}  // namespace
}  // namespace gpuman::daemon
