#include "cli/story_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace gpuman::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

api::JobStory Failed() {
  api::JobStory story;
  story.id = 7;
  story.tag = "train";
  story.state = api::JobState::kFailed;
  story.cause = "memory_refused";
  story.because = "512MiB was refused; it ended with exit status 1 3s later";
  story.story = {{base::WallTime{}, "submitted by ann", 1, {}},
                 {base::WallTime{}, "allocation refused", 3, {}}};
  story.advice = {"`gpuman job redo train --memory SIZE` runs it again with more"};
  return story;
}

TEST(RenderStory, SaysTheCauseFirstThenTheStoryThenWhatToDo) {
  const std::string text = RenderStory(Failed(), {});
  EXPECT_THAT(
      text, testing::StartsWith("job 7 'train' has ended: failed (memory_refused)\n  512MiB was refused; "));
  EXPECT_THAT(text, HasSubstr("  submitted by ann\n"));
  EXPECT_THAT(text, HasSubstr("allocation refused (3 times, until "));
  EXPECT_THAT(text, testing::EndsWith(
                        "\nWhat to do:\n  `gpuman job redo train --memory SIZE` runs it again with more\n"));
  EXPECT_THAT(text, Not(HasSubstr("…")));
}

TEST(RenderStory, SaysWhereLinesAreMissing) {
  api::JobStory story = Failed();
  story.left_out = 40;
  story.left_out_after = 1;
  EXPECT_THAT(RenderStory(story, {}), HasSubstr("submitted by ann\n  … 40 more\n"));
}

TEST(RenderStory, AJobThatRunsHasNoCauseInBrackets) {
  api::JobStory story = Failed();
  story.state = api::JobState::kRunning;
  story.cause = "runs";
  story.advice.clear();
  const std::string text = RenderStory(story, {});
  EXPECT_THAT(text, testing::StartsWith("job 7 'train' is running\n"));
  EXPECT_THAT(text, Not(HasSubstr("What to do")));
}

TEST(RenderStory, TellsThePeaksOfSeveralProcessesOrGpus) {
  api::JobStory story = Failed();
  const base::MemoryParts parts{base::GiB(3), {}, {}, {}, {}, {}, {}};
  story.peaks = {{"GPU-a", "0", {}, {}, base::GiB(4), {}},
                 {"GPU-a", "0", 60, "python3", base::GiB(3), parts}};
  EXPECT_THAT(RenderStory(story, {}), Not(HasSubstr("Most memory"))) << "the story says as much";
  story.peaks.push_back({"GPU-b", std::nullopt, 61, std::nullopt, base::GiB(1), {}});
  EXPECT_THAT(RenderStory(story, {}),
              HasSubstr("\nMost memory at a time:\n"
                        "  job                          GPU 0      4GiB\n"
                        "  process 60 python3           GPU 0      3GiB  3GiB in allocations\n"
                        "  process 61                   GPU-b      1GiB\n"));
  story.peaks.resize(12, story.peaks.back());
  EXPECT_THAT(RenderStory(story, {}), HasSubstr("  … 4 more, with --json\n"));
  story.peaks = {{"GPU-a", "0", {}, {}, base::GiB(4), {}}, {"GPU-b", "1", {}, {}, base::GiB(3), {}}};
  EXPECT_THAT(RenderStory(story, {}), HasSubstr("  job                          GPU 1      3GiB\n"));
}

TEST(RenderStory, EndsWithWhatTheJobUsed) {
  api::JobStory story = Failed();
  story.used = "It used 0.41 kWh, 0.12 EUR with its GPU time.";
  EXPECT_THAT(RenderStory(story, {}),
              HasSubstr("\n\n  It used 0.41 kWh, 0.12 EUR with its GPU time.\n\nWhat to do:"));
}

// The text of a terminal of 80 columns, as lines.
std::vector<std::string> Screen(const api::JobStory& story) {
  std::vector<std::string> lines;
  std::istringstream text{RenderStory(story, {.terminal = true, .width = 80})};
  for (std::string line; std::getline(text, line);) {
    lines.push_back(line);
    EXPECT_LE(Width(line), 80U) << line;
  }
  return lines;
}

std::string Sentence(const std::string& begin, std::size_t words) {
  std::string text = begin;
  for (std::size_t i = 0; i < words; ++i) text += " of 123.4GiB";
  return text;
}

TEST(RenderStory, IsOneScreenWhateverHappened) {
  api::JobStory story = Failed();
  story.tag = std::string(200, 'x');
  story.because = Sentence("it was refused", 80);
  story.story.clear();
  for (int i = 0; i < 15; ++i)
    story.story.push_back({base::WallTime{}, Sentence("event " + std::to_string(i), 20), 14,
                           base::WallTime{std::chrono::hours(72)}});
  story.left_out = 285;
  story.left_out_after = 5;
  story.peaks = {{"GPU-a", "0", {}, {}, base::GiB(4), {}}};
  story.peaks.resize(33, {"GPU-a", "0", 123'456, std::string(16, 'p'), base::GiB(1),
                          base::MemoryParts{base::MiB(999), base::MiB(998), base::MiB(997), base::MiB(996),
                                            base::MiB(995), base::MiB(994), base::MiB(993)}});
  story.used = "It used 123.41 kWh, 1230.12 EUR with its GPU time.";
  story.advice = {Sentence("`gpuman job redo 1000000 --memory SIZE`", 8), Sentence("another", 8),
                  "the last one"};
  auto lines = Screen(story);
  EXPECT_LE(lines.size(), 23U);
  EXPECT_THAT(lines[0], testing::EndsWith("…' has ended: failed (memory_refused)"));
  EXPECT_THAT(lines, testing::Contains(testing::ContainsRegex("event 0 of .*… \\(14 times, until ")));
  EXPECT_THAT(lines, testing::Contains(testing::ContainsRegex("event 14 of .*… \\(14 times, until ")));
  EXPECT_THAT(lines, testing::Contains(testing::ContainsRegex("… 29[0-9] more$")));
  EXPECT_EQ(lines.back(), "  the last one");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "What to do:"), 1);

  story.because = "it was refused";
  story.advice.resize(1);
  lines = Screen(story);
  EXPECT_LE(lines.size(), 23U);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "Most memory at a time:"), 1);
  EXPECT_THAT(lines, testing::Contains(testing::StartsWith("  process 123456 pppp")));
  EXPECT_THAT(lines, testing::Contains(testing::EndsWith("more, with --json")));
}

TEST(RenderStory, IsCutNowhereWhereThereIsRoom) {
  api::JobStory story = Failed();
  story.story[0].text = Sentence("submitted", 20);
  const auto lines = Screen(story);
  EXPECT_THAT(lines, testing::Contains(testing::EndsWith("123.4GiB")));
  EXPECT_THAT(lines, testing::Each(Not(HasSubstr("…"))));
  EXPECT_GT(lines.size(), 8U) << "it is wrapped";
}

TEST(RenderStory, ShowsNoControlCharacters) {
  api::JobStory story = Failed();
  story.story[0].text = story.because = story.advice[0] = story.tag = "a\x1b[31mb";
  story.peaks.resize(2, {"GPU-a", "0", 60, "a\x1b[31mb", base::GiB(1), {}});
  EXPECT_THAT(RenderStory(story, {}), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace gpuman::cli
