#include "cli/text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace gpuman::cli {
namespace {

TEST(Printable, KeepsTextOfEveryScript) {
  for (const char* text : {"train.py --lr 1e-3", "äöüß", "Ωμέγα", "模型训练", "تدريب النموذج", "מודל",
                           "नेपाली", "می‌خواهم", "👩‍🚀"})
    EXPECT_EQ(Printable(text), text);
}

TEST(Printable, NothingThatActsOnATerminalGetsThrough) {
  EXPECT_EQ(Printable("\033[2J\a\r\n\tx\x7F"), "?[2J????x?");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "2J"),
            "?2J")
      << "an 8-bit CSI";
  EXPECT_EQ(Printable("\xE0\x82\x9B"
                      "2J"),
            "???2J")
      << "the same in a longer form";
  EXPECT_EQ(Printable("\xC0\x9B\xFF\xED\xA0\x80"), "??????");
}

TEST(Printable, NothingThatTurnsOrHidesTextGetsThrough) {
  const std::string right_to_left = "\xE2\x80\xAE", isolate = "\xE2\x81\xA6", mark = "\xE2\x80\x8F",
                    arabic_mark = "\xD8\x9C", invisible = "\xE2\x80\x8B", byte_order = "\xEF\xBB\xBF",
                    line_separator = "\xE2\x80\xA8", tag = "\xF3\xA0\x81\xA1", soft_hyphen = "\xC2\xAD",
                    filler = "\xE3\x85\xA4";
  for (const auto& each : {right_to_left, isolate, mark, arabic_mark, invisible, byte_order, line_separator,
                           tag, soft_hyphen, filler})
    EXPECT_EQ(Printable("a" + each + "b"), "a?b");
}

TEST(PrintableLines, KeepsLinesTabsAndTheColoursThatAreOurs) {
  const TerminalStyle colored{true, true, 80}, plain{true, false, 80};
  const std::string red = Paint(colored, Color::kRed, "bad");
  EXPECT_EQ(PrintableLines(colored, "a\tb\n" + red + "\n"), "a\tb\n" + red + "\n");
  EXPECT_EQ(PrintableLines(plain, red), "?[31mbad?[0m");
  for (const char* hostile : {"\033[8m", "\033[2J", "\033]0;x\a", "\033", "\033[", "\033[31", "\033[31;8m"})
    EXPECT_EQ(PrintableLines(colored, hostile).find('\033'), std::string::npos) << hostile;
  EXPECT_EQ(PrintableLines(colored,
                           "a\xE2\x80\xAE"
                           "b\rc"),
            "a?b?c");
}

TEST(PrintableJson, EscapedJsonParsesToTheSameValue) {
  const nlohmann::json json{{"name",
                             "a\xE2\x80\xAE"
                             "b\xC2\x9B\x7F\xF3\xA0\x81\xA1\033 äöü"}};
  for (const int indent : {-1, 2}) {
    const auto text = PrintableJson(json.dump(indent));
    EXPECT_EQ(nlohmann::json::parse(text), json);
    EXPECT_NE(text.find("a\\u202eb\\u009b\\u007f\\udb40\\udc61\\u001b äöü"), std::string::npos) << text;
  }
}

TEST(Width, CountsColumnsAndNotCharacters) {
  EXPECT_EQ(Width("train"), 5u);
  EXPECT_EQ(Width("äöü"), 3u);
  EXPECT_EQ(Width("模型"), 4u) << "wide";
  EXPECT_EQ(Width("e\xCC\x81"), 1u) << "a combining accent";
  EXPECT_EQ(Width("⣿█…"), 3u) << "plots";
  EXPECT_EQ(Width("\xFF"
                  "a"),
            2u)
      << "not UTF-8";
}

TEST(Cut, KeepsColumnsOfWideCharacters) {
  EXPECT_EQ(Cut("模型训练", 8), "模型训练");
  EXPECT_EQ(Cut("模型训练", 7), "模型训…");
  EXPECT_EQ(Cut("模型训练", 6), "模型…") << "half of a character is none";
  EXPECT_EQ(Cut("abc", 0), "");
  EXPECT_EQ(Cut("模", 1), "…");
}

TEST(Fit, HasExactlyItsColumns) {
  EXPECT_EQ(Fit("模型", 6), "模型  ");
  EXPECT_EQ(Fit("7", 3, true), "  7");
  EXPECT_EQ(Fit("模型训练", 6), "模型… ");
}

RC_GTEST_PROP(Printable, WhatItLeavesItLeavesAgain, (const std::string& text)) {
  const auto once = Printable(text);
  RC_ASSERT(Printable(once) == once);
  RC_ASSERT(PrintableLines({}, once) == once);
}

}  // namespace
}  // namespace gpuman::cli
