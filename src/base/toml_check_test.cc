#include "base/toml_check.h"

#include <gtest/gtest.h>

#include <string>

namespace gpuman::base {
namespace {

struct Where {
  std::size_t before = 0, line = 0;
  bool operator==(const Where&) const = default;
};
std::optional<Where> Find(std::string_view text) {
  const auto mistake = FindTomlMistake(text);
  return mistake ? std::optional(Where{mistake->before, mistake->line}) : std::nullopt;
}

TEST(FindTomlMistake, FindsTheHeaderThatTheParserCannotTake) {
  EXPECT_EQ(Find("[[[layouts"), (Where{0, 1}));
  EXPECT_EQ(Find("a = 1\n  [#\n"), (Where{6, 2}));
  for (const char* text : {"[.a]", "[[=]]", "[ \t\n", "[[ [a]]", "[\xc3\xa4]", "[\x01"})
    EXPECT_EQ(Find(text), (Where{0, 1})) << text;
  EXPECT_EQ(Find("\xef\xbb\xbf[{"), (Where{3, 1})) << "a byte order mark may stand in front";
}

TEST(FindTomlMistake, FindsWhatIsNotAsciiOutsideOfStringsAndComments) {
  EXPECT_EQ(Find("a = 1\nb = [\xd0\xa8\n]\n"), (Where{6, 2}));
  EXPECT_EQ(Find("a = [\n1,\n\xd0\xa8\n]\n"), (Where{0, 3}));
  EXPECT_EQ(Find("\xd0\xa8 = 1"), (Where{0, 1}));
  EXPECT_FALSE(Find("a = '\xd0\xa8' # \xd0\xa8\n\"\xd0\xa8\" = \"\"\"\n\xd0\xa8\"\"\"\n"));
}

TEST(FindTomlMistake, FindsControlCharactersOutsideOfStrings) {
  EXPECT_EQ(Find("a = [\v]"), (Where{0, 1}));
  EXPECT_EQ(Find("a = 1\r\nb = \x7f"), (Where{7, 2}));
  EXPECT_FALSE(Find("a = [\t1,\r\n2]\r\n"));
}

TEST(FindTomlMistake, FindsABracketThatAnotherOneCloses) {
  EXPECT_EQ(Find("a = [0]\nb = [}\n"), (Where{8, 2}));
  EXPECT_EQ(Find("a = {b = 1]\n"), (Where{0, 1}));
  EXPECT_EQ(Find("a = [{b = [\n1}]]\n"), (Where{0, 2}));
  for (const char* text : {"a = [{b = [1]}, {}]\n", "[a]\nb = [']', \"}\"] # ]}\n", "a = ]\n", "a = }\n"})
    EXPECT_FALSE(Find(text)) << text;
}

TEST(FindTomlMistake, FindsANumberWithSomethingElseInIt) {
  EXPECT_EQ(Find("a = 1\nb = 0\"\xd2\x84\"\n"), (Where{6, 2}));
  for (const char* text : {"a = 0.\"\xd2\x84\"\n", "a = {b = 0'x'}\n", "a = 0[\"x", "a = [{}, 1(]",
                           "a = 1979-05-27 07'", "a = {b = {}, c = -1=}", "a = +\xc6\x98"})
    EXPECT_EQ(Find(text), (Where{0, 1})) << text;
  for (const char* text : {"a.\"b\".'c' = [\"x\",'y',\n\"z\"]\n", "0.'b' = {'b'=\"x\",1.'d'='y'}\n",
                           "1=1979-05-27T07:32:00.5+01:00", "a = [0x_ff, -1.5e+3, +inf, 07:32:00]# 0\"",
                           "\xef\xbb\xbf'a' = 1", "a = [{1.'b' = 1}, {2.'c' = [{}]}]"})
    EXPECT_FALSE(Find(text)) << text;
}

TEST(FindTomlMistake, LeavesTablesWithANameAndWhatTheParserTellsItself) {
  for (const char* text : {"", "[a]", "[ \"a b\" ]", "[['a']]", "[-_0]", "[]", "[[", "[", "a",
                           "\xef\xbb\xbf[a]\nb = 1", "a = \"x\n[b]"})
    EXPECT_FALSE(Find(text)) << text;
}

TEST(FindTomlMistake, DoesNotTakeValuesForHeaders) {
  for (const char* text :
       {"a = [\n  [[[1]]],\n]\n", "a = [ # [[[\n  [{}],\n]\nb = 1\n", "a = \"\"\"\n[[[\n\"\"\"\n",
        "a = '''\n[[[\n'''\n", "a = \"\"\"\"quoted\"\"\"\"\nb = 2\n", "a = '[' # '\n[b]\n",
        "a = \"\\\"[\"\n[b]\n", "a = '\\'\n[b]\n", "a = {b = [\n[[[1]]]]}\n"})
    EXPECT_FALSE(Find(text)) << text;
}

TEST(FindTomlMistake, FindsWrongHeaderAfterValuesThatLookLikeHeaders) {
  for (const char* text : {"a = [\n  [[[1]]],\n]\n", "a = \"\"\"\n[[[\n\"\"\"\n", "a = '''\n[[[\n'''\n",
                           "a = \"\\\"[\"\n", "a = '\\'\n", "# [a\n", "[a] # b\n"})
    EXPECT_TRUE(Find(std::string(text) + "[[[")) << text;
}

TEST(FindTomlMistake, ReadableTextEndsBeforeStatementWithMistake) {
  const std::string_view text = "a = 1\nb = [\n  \xd0\xa8";
  EXPECT_EQ(Readable(text, FindTomlMistake(text)), "a = 1\n");
  EXPECT_EQ(Readable("a = 1", FindTomlMistake("a = 1")), "a = 1");
}

}  // namespace
}  // namespace gpuman::base
