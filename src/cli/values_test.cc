#include "cli/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "base/test_temp_dir.h"
#include "cli/parser.h"
#include "cli/queue/when.h"

namespace gpuman::cli {
namespace {

using queue::FormatAbout;
using queue::FormatClock;
using queue::FormatWhen;
using queue::WithLocalTimes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Berlin has summer time: the clocks go forward on 2026-03-29 at 02:00 and back on 2026-10-25 at 03:00.
class Times : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    ::tzset();
  }
  static base::WallTime Utc(const char* text) { return base::ParseIso8601(text).value(); }
  const base::WallTime now_ = Utc("2026-11-22T12:00:00.000Z");  // 13:00 local
};

TEST_F(Times, OfTheDaemonsSentencesAreLocal) {
  EXPECT_EQ(WithLocalTimes("begins at 2026-11-22T14:00:00.000Z, in 2h"),
            "begins at 2026-11-22 15:00:00, in 2h");
  EXPECT_EQ(WithLocalTimes("2026-07-01T22:30:00.999Z to 2026-07-02T22:30:00.000Z"),
            "2026-07-02 00:30:00 to 2026-07-03 00:30:00");
  for (const auto* const other :
       {"", "Z", "no time Z in it", "2026-11-22T14:00:00", "GPU-0123456789abcdefghijklmZ"})
    EXPECT_EQ(WithLocalTimes(other), other);
}

TEST_F(Times, AreReadAsPeopleWriteThem) {
  for (const auto& [text, utc] : std::vector<std::pair<const char*, const char*>>{
           {"now", "2026-11-22T12:00:00.000Z"},
           {"now+2h", "2026-11-22T14:00:00.000Z"},
           {"now+30", "2026-11-22T12:30:00.000Z"},
           {"now+45s", "2026-11-22T12:00:45.000Z"},
           {"22:00", "2026-11-22T21:00:00.000Z"},
           {"13:00", "2026-11-23T12:00:00.000Z"},  // the next time
           {"9:05:30", "2026-11-23T08:05:30.000Z"},
           {"noon", "2026-11-23T11:00:00.000Z"},
           {"tomorrow", "2026-11-22T23:00:00.000Z"},
           {"2026-12-01", "2026-11-30T23:00:00.000Z"},
           {"2026-12-01T08:00", "2026-12-01T07:00:00.000Z"},
           {"2026-07-01 08:00:01", "2026-07-01T06:00:01.000Z"},
           {"2026-12-01T08:00Z", "2026-12-01T08:00:00.000Z"},
           {"2026-12-01T08:00:00.500Z", "2026-12-01T08:00:00.500Z"},
           {"2900-01-01", "2899-12-31T23:00:00.000Z"},
           {"2026-12-01T08:00+02:00", "2026-12-01T06:00:00.000Z"},
           {"2026-07-01 08:00:30-05:30", "2026-07-01T13:30:30.000Z"},
           {"2027-03-28T02:30", "2027-03-28T01:30:00.000Z"},  // skipped: an hour later
           {"2027-10-31T02:30", "2027-10-31T00:30:00.000Z"},  // occurs twice: the first time
           {"2027-10-31T03:00", "2027-10-31T02:00:00.000Z"},
       }) {
    const auto time = ParseTime(text, now_);
    ASSERT_TRUE(time) << text << ": " << time.error().message;
    EXPECT_EQ(base::FormatIso8601(*time), utc) << text;
  }
}

TEST_F(Times, ThatMakeNoSenseAreRefused) {
  for (const char* text :
       {"", "soon", "25:00", "12", "12:60", "2026-13-01", "2026-02-30", "2026-12-01X08:00", "now+", "now+x",
        "-1:00", "2026-12-01T", "2026-12-01T99:00Z", "2026-12-01T08:00+2:00", "2026-12-01T08:00+25:00"}) {
    const auto time = ParseTime(text, now_);
    EXPECT_FALSE(time) << text;
    if (time) continue;
    EXPECT_THAT(time.error().message, HasSubstr(std::string("'") + text + "'"));
  }
}

// "8:00" is 8:00 before and after the clocks change.
TEST_F(Times, OfTheNextDayAreOnTheClockOfThatDay) {
  EXPECT_EQ(*ParseTime("8:00", Utc("2026-03-28T12:00:00.000Z")), Utc("2026-03-29T06:00:00.000Z"));
  EXPECT_EQ(*ParseTime("8:00", Utc("2026-10-24T12:00:00.000Z")), Utc("2026-10-25T07:00:00.000Z"));
  EXPECT_EQ(*ParseTime("tomorrow", Utc("2026-10-25T12:00:00.000Z")), Utc("2026-10-25T23:00:00.000Z"));
}

// A zone file in its format (RFC 8536): always nine hours ahead.
TEST_F(Times, MayBeOfAnotherZone) {
  const base::TempDir zones;
  const std::string block = std::string("TZif2", 5) + std::string(15, '\0') + std::string(16, '\0') +
                            std::string("\0\0\0\1\0\0\0\4", 8) + std::string("\0\0\x7e\x90\0\0", 6) +
                            std::string("JST\0", 4);
  std::ofstream(zones.path() / "East") << block << block << "\nJST-9\n";
  ::setenv("TZDIR", zones.path().c_str(), 1);
  EXPECT_EQ(*ParseTimeIn("East", "2026-12-01T08:00", now_), Utc("2026-11-30T23:00:00.000Z"));
  EXPECT_EQ(*ParseTime("2026-12-01T08:00", now_), Utc("2026-12-01T07:00:00.000Z"));
  for (const char* zone : {"", "Nowhere", "../East", "/etc/passwd"})
    EXPECT_FALSE(ParseTimeIn(zone, "now", now_));
  ::unsetenv("TZDIR");
}

TEST_F(Times, OfThePastAreReadForFilters) {
  EXPECT_EQ(*ParseSince("1h", now_), Utc("2026-11-22T11:00:00.000Z"));
  EXPECT_EQ(*ParseSince("2w", now_), Utc("2026-11-08T12:00:00.000Z"));
  EXPECT_EQ(*ParseSince("today", now_), Utc("2026-11-21T23:00:00.000Z"));
  EXPECT_EQ(*ParseSince("yesterday", now_), Utc("2026-11-20T23:00:00.000Z"));
  EXPECT_EQ(*ParseSince("2026-11-01", now_), Utc("2026-10-31T23:00:00.000Z"));
  EXPECT_FALSE(ParseSince("once", now_));
}

TEST_F(Times, AreShownAsShortAsTheyAreClear) {
  EXPECT_EQ(FormatWhen(Utc("2026-11-22T13:03:00.000Z"), now_), "14:03");
  EXPECT_EQ(FormatWhen(Utc("2026-11-23T07:00:00.000Z"), now_), "tomorrow 08:00");
  EXPECT_EQ(FormatWhen(Utc("2026-12-01T07:00:00.000Z"), now_), "2026-12-01 08:00");
  EXPECT_EQ(FormatAbout(Utc("2026-11-22T13:03:00.000Z"), now_), "~today");
  EXPECT_EQ(FormatAbout(Utc("2026-11-23T07:00:00.000Z"), now_), "~tomorrow");
  EXPECT_EQ(FormatAbout(Utc("2026-12-01T07:00:00.000Z"), now_), "~2026-12-01");
  EXPECT_EQ(FormatClock(base::Millis(135'900)), "00:02:15");
  EXPECT_EQ(FormatClock(base::Millis(93'600'000)), "1-02:00:00");
}

TEST(Array, HasRangesStepsAndALimit) {
  const auto array = ParseArray("5,0-3:2%4");
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(*array, (api::ArrayRequest{{{0, 3, 2}, {5, 5, 1}}, 4}));
  EXPECT_EQ(api::CountTasks(*ParseArray("0-99:2%4")), 50);
}

TEST(Array, SaysWhatIsWrong) {
  for (const auto& [text, says] :
       std::vector<std::pair<const char*, const char*>>{{"", "empty part"},
                                                        {"a", "'a' is not an index"},
                                                        {"3-1", "'3-1' runs backwards"},
                                                        {"0-9:0", "no step of at least 1"},
                                                        {"0-9%0", "no number of at least 1 behind its %"},
                                                        {"0-5,3", "has 3 twice"},
                                                        {"-1", "is not an index"},
                                                        {"0-100000", "'0-100000' is 100001 tasks"},
                                                        {"0-99999999999", "is not an index"},
                                                        {"1,,2", "empty part"}}) {
    const auto array = ParseArray(text);
    ASSERT_FALSE(array) << text;
    EXPECT_THAT(array.error().message, HasSubstr(says)) << text;
  }
}

TEST(DependencyList, HasKindsAndModes) {
  const auto plain = ParseDependencies("7,train,@~1");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->mode, spec::DependencyMode::kAll);
  EXPECT_EQ(plain->list.size(), 3U);
  EXPECT_EQ(plain->list[2].job, "@~1");
  const auto slurm = ParseDependencies("afterok:1:2?afternotok:prep");
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->mode, spec::DependencyMode::kAny);
  EXPECT_EQ(slurm->list[1], (spec::NamedDependency{spec::DependencyKind::kAfterOk, "2"}));
  EXPECT_EQ(slurm->list[2], (spec::NamedDependency{spec::DependencyKind::kAfterNotOk, "prep"}));
  EXPECT_EQ(ParseDependencies("a:b")->list[0].job, "a:b");
  EXPECT_THAT(ParseDependencies("1,2?3").error().message, HasSubstr("both"));
  EXPECT_THAT(ParseDependencies("afterward:1").error().message, HasSubstr("'afterward' is not a kind"));
  EXPECT_THAT(ParseDependencies("afterok").error().message, HasSubstr("names no job"));
}

TEST(GflowValues, CountMinutesAndMebibytes) {
  EXPECT_EQ(*ParseMinutes("30"), base::Millis(1'800'000));
  EXPECT_EQ(*ParseMinutes("5:30"), base::Millis(330'000));
  EXPECT_EQ(*ParseMinutes("2:00:00"), base::Millis(7'200'000));
  EXPECT_EQ(*ParseMinutes("1-12:00:00"), base::Millis(129'600'000));
  EXPECT_EQ(*ParseMinutes("1-12"), base::Millis(129'600'000));
  EXPECT_FALSE(ParseMinutes("-5"));
  EXPECT_FALSE(ParseMinutes("x-1:00"));
  EXPECT_EQ(*ParseMebibytes("512"), base::MiB(512));
  EXPECT_EQ(*ParseMebibytes("24G"), base::GiB(24));
  EXPECT_FALSE(ParseMebibytes("0"));
}

TEST(Lists, SpellOutRanges) {
  EXPECT_THAT(*ParseJobs("1,3-5,train,7_3"), ElementsAre("1", "3", "4", "5", "train", "7_3"));
  EXPECT_THAT(*ParseJobs("my-job"), ElementsAre("my-job"));
  EXPECT_FALSE(ParseJobs("5-1"));
  EXPECT_FALSE(ParseJobs("1-999999"));
  EXPECT_THAT(*ParseGpus("0-2,5"), ElementsAre("0", "1", "2", "5"));
  EXPECT_THAT(*ParseGpus("GPU-12-ab"), ElementsAre("GPU-12-ab"));
  EXPECT_THAT(*ParseGpus("0:1,1:0"), ElementsAre("0:1", "1:0"));
  EXPECT_FALSE(ParseGpus("x"));
  EXPECT_FALSE(ParseGpus("0:"));
  EXPECT_FALSE(ParseGpus(":1"));
  EXPECT_FALSE(ParseGpus("0:1:2"));
  EXPECT_EQ(ParseWarning("TERM@90s")->before, base::Millis(90'000));
  EXPECT_EQ(ParseWarning("60s")->signal, spec::Signal{SIGUSR1});
  EXPECT_FALSE(ParseWarning("KILL@60s"));
}

TEST(Numbers, MayBeginWithAPlus) {
  EXPECT_EQ(*ParseInteger("+5", 0, 10), 5);
  EXPECT_EQ(*ParseInteger<std::int64_t>("+0", 0, 10), 0);
  EXPECT_EQ(*ParseWeight("+0.5"), 0.5);
  EXPECT_EQ(*ParsePercentage("+25%"), 25);
  for (const char* text : {"+", "++5", "+-5", "5+", "+ 5"}) {
    EXPECT_FALSE(ParseInteger(text, -10, 10)) << text;
    EXPECT_FALSE(ParseWeight(text)) << text;
  }
}

struct Found {
  std::vector<std::string> seen;
  Options Table() {
    const auto note = [this](const char* name) {
      return [this, name](const std::string& value) -> base::Result<> {
        if (value == "bad") return base::Fail(base::ErrorCode::kInvalidArgument, "it is bad");
        seen.push_back(std::string(name) + "=" + value);
        return {};
      };
    };
    return {{"-g,--gpus,--gres", "N", "help", note("gpus")}, {"-a,--all", "", "help", note("all")}};
  }
};

base::Result<std::vector<std::string>> Read(Found& found, const std::vector<std::string>& words,
                                            bool ends_at_word = false) {
  const auto table = found.Table();
  return OptionParser(table, ends_at_word).Read(words);
}

TEST(OptionTable, TakesEveryUsualWayToWriteAnOption) {
  Found found;
  const auto rest = Read(found, {"--gpus", "1", "-g2", "-ag", "3", "x", "--gres=4", "-a", "--gpus", "-5"});
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_THAT(*rest, ElementsAre("x"));
  EXPECT_THAT(found.seen, ElementsAre("gpus=1", "gpus=2", "all=", "gpus=3", "gpus=4", "all=", "gpus=-5"));
}

TEST(OptionTable, LeavesACommandAlone) {
  Found found;
  EXPECT_THAT(*Read(found, {"-a", "python", "-g", "1", "--", "x"}, true),
              ElementsAre("python", "-g", "1", "--", "x"));
  EXPECT_THAT(*Read(found, {"-a", "--", "-g"}, true), ElementsAre("--", "-g"));
  EXPECT_THAT(found.seen, ElementsAre("all=", "all="));
}

TEST(OptionTable, IsReadAgainAndAgain) {
  Found found;
  const auto table = found.Table();
  OptionParser reader(table);
  EXPECT_TRUE(reader.Read({"-g", "1", "x"}));
  EXPECT_FALSE(reader.Read({"-g"}));
  EXPECT_THAT(*reader.Read({"-a"}), ::testing::IsEmpty());
  EXPECT_THAT(found.seen, ElementsAre("gpus=1", "all="));
}

TEST(OptionTable, NamesTheOptionThatIsWrong) {
  Found found;
  for (const auto& [words, says] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"--gpsu", "1"}, "unknown option '--gpsu'"},
           {{"--gpus"}, "--gpus: its value is missing: --gpus N"},
           {{"-g"}, "--gpus: its value is missing: --gpus N"},
           {{"--all=1"}, "--all: it takes no value"},
           {{"-g", "bad"}, "--gpus: it is bad"},
           {{"-x"}, "unknown option '-x'"}}) {
    const auto rest = Read(found, words);
    ASSERT_FALSE(rest);
    EXPECT_THAT(rest.error().message, HasSubstr(says));
  }
  EXPECT_EQ(Read(found, {"--gpsu"}).error().hint, "did you mean --gpus?");
}

}  // namespace
}  // namespace gpuman::cli
