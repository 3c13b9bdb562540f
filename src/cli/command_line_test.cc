#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace gpuman::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Split(std::string_view text) {
  auto words = SplitCommand(text);
  EXPECT_TRUE(words) << text;
  return words ? *words : std::vector<std::string>{};
}

TEST(SplitCommand, StartsPlainCommandsWithoutAShell) {
  EXPECT_THAT(Split("/home/me/build/cuda_mem_stable"), ElementsAre("/home/me/build/cuda_mem_stable"));
  EXPECT_THAT(Split("  python\ttrain.py  --epochs 3 "), ElementsAre("python", "train.py", "--epochs", "3"));
  EXPECT_THAT(Split("train --lr=0.1 a~b c#d"), ElementsAre("train", "--lr=0.1", "a~b", "c#d"));
}

TEST(SplitCommand, UnderstandsQuotesAndBackslashes) {
  EXPECT_THAT(Split(R"(p 'a b' "c d" e\ f)"), ElementsAre("p", "a b", "c d", "e f"));
  EXPECT_THAT(Split(R"(p 'a$b*' "c\"d\\e" '' "")"), ElementsAre("p", "a$b*", "c\"d\\e", "", ""));
  EXPECT_THAT(Split(R"(p a'b'"c"\d)"), ElementsAre("p", "abcd"));
  EXPECT_THAT(Split(R"("/opt/my app/run" x)"), ElementsAre("/opt/my app/run", "x"));
  EXPECT_THAT(Split(R"(p "a\b")"), ElementsAre("p", R"(a\b)"));
}

TEST(SplitCommand, LeavesWhatNeedsAShellToTheShell) {
  for (const char* text :
       {"a | b", "a && b", "a; b", "a > log", "a < in", "echo $HOME", "echo \"$HOME\"", "ls *.py", "ls [ab]",
        "ls a?", "`a`",    "$(a)", "(a)",     "A=1 b",  "a &",        "~/bin/x",        "a ~/x",   "cd /tmp",
        "if",    "{ a",    "a\nb", "a # c",   "exec a"})
    EXPECT_THAT(Split(text), ElementsAre("/bin/sh", "-c", text));
}

TEST(SplitCommand, RefusesNothingAndOpenQuotes) {
  for (const char* text : {"", "   ", "''", "'' a"})
    EXPECT_THAT(SplitCommand(text).error().message, HasSubstr("empty")) << text;
  for (const char* text : {"a 'b", "a \"b", "a \"b\\\"", "'"})
    EXPECT_THAT(SplitCommand(text).error().message, HasSubstr("never closed")) << text;
  EXPECT_THAT(SplitCommand("a \\").error().message, HasSubstr("backslash"));
}

// The words that a shell makes of the text, one on each line.
std::string WordsOfShell(const std::string& text) {
  const std::string command = "set -f; printf '%s\\n' " + text;
  std::string output;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "no shell";
  std::array<char, 256> buffer;
  while (std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  ::pclose(pipe);
  return output;
}

TEST(SplitCommand, TakesWordsApartAsTheShellDoes) {
  for (const std::string text : {R"(x 'a b' "c d" e\ f)", R"(x "a\"b" 'c"d' \'e\')", R"(x a'b'"c"\d '' "")",
                                 R"(x --opt="a b" -n '1 2'3)", R"(x "a\\b" 'a\\b' a\\b)"}) {
    std::string ours;
    for (const auto& word : Split(text)) ours += word + "\n";
    EXPECT_EQ(ours, WordsOfShell(text)) << text;
  }
}

RC_GTEST_PROP(JoinCommand, IsUndoneBySplitCommand, ()) {
  auto words = *rc::gen::container<std::vector<std::string>>(rc::gen::container<std::string>(
      rc::gen::element('a', 'Z', '0', ' ', '\'', '"', '\\', '$', '*', '\n', '=', '-', '\t', '~')));
  words.insert(words.begin(), "program");
  const auto back = SplitCommand(JoinCommand(words));
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == words);
}

}  // namespace
}  // namespace gpuman::cli
