#include "keeper/journal.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "keeper/test_history.h"

namespace gpuman::keeper {
namespace {

using base::Millis;

// One record of every kind, of a job that was restarted once and stopped.
std::vector<JournalRecord> Story() {
  const std::vector<RecordBody> bodies{
      KeeperStarted{{100, 5000}, "boot", "/sys/fs/cgroup/gpuman/job-1", "key", "0.1"},
      RunStarted{1, {101, 5001}, {"limit CORE could not be set"}},
      RunEnded{.run = 1,
               .kind = EndKind::kSignalled,
               .code = 9,
               .core_dumped = true,
               .lasted = Millis{1234},
               .usage = {std::chrono::microseconds{5}, std::chrono::microseconds{6}, base::MiB(7)},
               .ordered = EndReason{"memory_limit", "used 600MiB of 512MiB"}},
      RestartScheduled{2, Millis{1000}, 1, std::nullopt},
      StartFailed{2, "command", 2, "command not found: py\xffthon"},
      RestartScheduled{3, Millis{0}, 0, EndReason{"restart", ""}},
      RunStarted{3, {103, 5003}, {}},
      JobSettingsChanged{R"({"stop_grace_ms":5})"},
      ClockPauseChanged{true},
      RestartOrdered{{"restart", "by lab1"}},
      StopOrdered{{"stopped", "by lab1"}},
      RunEnded{
          .run = 3, .kind = EndKind::kExited, .code = 3, .lasted = Millis{1}, .usage = {}, .ordered = {}},
      JobEnded{3, "stopped"}};
  std::vector<JournalRecord> records;
  for (const auto& body : bodies) {
    const auto seq = records.size() + 1;
    records.push_back(
        {seq, base::WallTime(Millis{1'700'000'000'000}), Millis{static_cast<std::int64_t>(seq)}, body});
  }
  return records;
}

std::string TextOf(const std::vector<JournalRecord>& records) {
  std::string text;
  for (const auto& record : records) text += EncodeLine(record);
  return text;
}

TEST(Journal, ReadsBackEveryKindOfRecord) {
  const auto content = ParseJournal(TextOf(Story()));
  EXPECT_EQ(content.records, Story());
  EXPECT_EQ(content.end, JournalEnd{.whole_bytes = TextOf(Story()).size()});
}

TEST(Journal, TornAtAnyByteYieldsExactlyTheWholeRecordsBefore) {
  const auto story = Story();
  const std::string text = TextOf(story);
  std::size_t whole = 0;
  std::size_t whole_bytes = 0;
  for (std::size_t length = 0; length <= text.size(); ++length) {
    // Only the newline may be missing.
    const bool lacks_newline = length < text.size() && text[length] == '\n';
    if (lacks_newline || (length > 0 && text[length - 1] == '\n')) whole_bytes = length;
    whole += lacks_newline ? 1 : 0;
    const auto content = ParseJournal(std::string_view(text).substr(0, length));
    ASSERT_EQ(content.records.size(), whole) << length;
    ASSERT_EQ(content.end.whole_bytes, whole_bytes) << length;
    ASSERT_EQ(content.end.torn, length != whole_bytes) << length;
    ASSERT_EQ(content.end.lacks_newline, lacks_newline) << length;
    ASSERT_FALSE(content.end.damaged_line) << length;
  }
}

// Whether each of `records` is one of `story`, in the same order.
bool AreSomeOf(const std::vector<JournalRecord>& records, const std::vector<JournalRecord>& story) {
  auto from = story.begin();
  for (const auto& record : records) {
    from = std::find(from, story.end(), record);
    if (from == story.end()) return false;
    ++from;
  }
  return true;
}

TEST(Journal, AnAlteredByteIsDamageOfItsLineAndTheOthersAreReadAllTheSame) {
  const auto story = Story();
  const std::string text = TextOf(story);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto line = static_cast<std::size_t>(
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    for (int bit = 0; bit < 8; ++bit) {
      std::string altered = text;
      altered[at] = static_cast<char>(altered[at] ^ (1 << bit));
      const auto content = ParseJournal(altered);
      if (content.records == story && content.end.whole_bytes == text.size() && !content.end.damaged_line)
        continue;  // a digit of the checksum as a capital letter
      ASSERT_EQ(content.end.damaged_line, line + 1) << at << " " << bit;
      ASSERT_FALSE(content.end.torn) << at << " " << bit;
      ASSERT_GE(content.records.size(), story.size() - 2) << at << " " << bit;
      ASSERT_TRUE(AreSomeOf(content.records, story)) << at << " " << bit;
    }
  }
}

TEST(Journal, NothingIsReadBehindALineThatIsFarTooLong) {
  const auto content = ParseJournal(TextOf({Story()[0]}) + std::string(5u << 20, 'x'));
  EXPECT_EQ(content.end.damaged_line, 2u);
  EXPECT_FALSE(content.end.torn);
}

RC_GTEST_PROP(Journal, ReaderSurvivesAnyText, (const std::string& text)) {
  const auto content = ParseJournal(text);
  RC_ASSERT(content.end.whole_bytes <= text.size());
}

TEST(Journal, SkipsRecordsOfAKindThatALaterVersionKnows) {
  auto lines = TextOf({Story()[0]});
  // "12345678 {...}" with a right CRC, made from a known record with its own encoder.
  auto later = Story()[1];
  std::string json = SerializeRecord(later);
  json.replace(json.find("\"run\"", json.find("\"t\"")), 5, "\"hop\"");
  EXPECT_EQ(ParseRecord(json).error().code, base::ErrorCode::kNotSupported);
}

TEST(JobHistory, TellsTheStory) {
  const auto story = Story();
  const auto after = [&](std::size_t count) {
    return Summarize({story.begin(), story.begin() + static_cast<std::ptrdiff_t>(count)});
  };
  EXPECT_FALSE(after(1).run_open);
  EXPECT_EQ(after(1).last_run, 0u);
  EXPECT_TRUE(after(2).run_open);
  EXPECT_EQ(after(3).ended->code, 9);
  EXPECT_EQ(after(3).ended->ordered->word, "memory_limit");
  EXPECT_EQ(after(4).restart->run, 2u);
  EXPECT_EQ(after(4).in_a_row, 1u);
  EXPECT_FALSE(after(5).run_open);
  EXPECT_EQ(after(5).runs, 1u);
  EXPECT_EQ(after(5).last_run, 2u);
  EXPECT_EQ(after(7).runs, 2u);
  EXPECT_FALSE(after(7).restart);
  EXPECT_FALSE(after(7).ended);
  const auto all = Summarize(story);
  EXPECT_TRUE(all.stop && all.job_ended);
  EXPECT_EQ(all.last_seq, story.size());
  EXPECT_EQ(all.settings.size(), 1u);
}

TEST(JobHistory, DoesNotCountARunThatExecveRefused) {
  auto story = Story();
  story.resize(2);
  story.push_back({3, {}, {}, StartFailed{1, "exec", 8, "executing x: Exec format error"}});
  const auto history = Summarize(story);
  EXPECT_EQ(history.runs, 0u);
  EXPECT_FALSE(history.run_open);
  EXPECT_EQ(history.failed->error_number, 8);
}

// Compares what a later keeper needs.
void ExpectSameHistory(const JobHistory& a, const JobHistory& b) {
  EXPECT_EQ(a.keeper, b.keeper);
  EXPECT_EQ(a.last_seq, b.last_seq);
  EXPECT_EQ(a.last_run, b.last_run);
  EXPECT_EQ(a.runs > 0, b.runs > 0);
  EXPECT_EQ(a.run_open, b.run_open);
  EXPECT_EQ(a.started, b.started);
  EXPECT_EQ(a.failed, b.failed);
  EXPECT_EQ(a.ended, b.ended);
  EXPECT_EQ(a.ended_at, b.ended_at);
  EXPECT_EQ(a.stop, b.stop);
  EXPECT_EQ(a.restart_ordered, b.restart_ordered);
  EXPECT_EQ(a.restart, b.restart);
  EXPECT_EQ(a.in_a_row, b.in_a_row);
  EXPECT_EQ(a.job_ended, b.job_ended);
}

// A job's records, of all kinds, in an order that a keeper could write.
std::vector<JournalRecord> AnyStory() {
  std::vector<JournalRecord> records;
  const auto add = [&](RecordBody body) {
    const auto seq = records.size() + 1;
    records.push_back({seq, base::WallTime(Millis{1000 * static_cast<std::int64_t>(seq)}),
                       Millis{static_cast<std::int64_t>(seq)}, std::move(body)});
  };
  add(KeeperStarted{{100, 1}, "boot", "", "key", "0.1"});
  const auto runs = *rc::gen::inRange<RunNumber>(1, 6);
  for (RunNumber run = 1; run <= runs; ++run) {
    const auto kind = *rc::gen::inRange(0, 4);
    if (kind != 0) add(RunStarted{run, {static_cast<pid_t>(run), run}, {}});
    if (kind == 3)
      add(JobSettingsChanged{
          *rc::gen::element<std::string>(R"({"stop_grace_ms":5})", R"({"log_rotations":3})", "?")});
    if (kind == 3) add(ClockPauseChanged{true});
    if (*rc::gen::inRange(0, 3) == 0) add(RestartOrdered{{"restart", std::to_string(run)}});
    if (kind <= 1) add(StartFailed{run, kind == 0 ? "command" : "exec", 2, "no"});
    if (kind >= 2)
      add(RunEnded{.run = run, .kind = EndKind::kExited, .code = kind, .usage = {}, .ordered = {}});
    if (*rc::gen::inRange(0, 5) == 0)
      add(KeeperStarted{{static_cast<pid_t>(100 + run), run}, "boot", "", "key", "0.1"});
    if (run < runs) add(RestartScheduled{run + 1, Millis{1}, run, {}});
  }
  if (*rc::gen::arbitrary<bool>()) add(StopOrdered{{"stopped", ""}});
  if (*rc::gen::arbitrary<bool>()) add(JobEnded{runs, "stopped"});
  return records;
}

RC_GTEST_PROP(Journal, TellsTheSameStoryWithoutWhatIsNotNeeded, ()) {
  const auto all = AnyStory();
  const auto stored = *rc::gen::inRange<std::uint64_t>(0, all.size() + 1);
  const auto kept = StillNeeded(all, stored);
  ExpectSameHistory(Summarize(kept), Summarize(all));
  RC_ASSERT(!::testing::Test::HasFailure());
  for (const auto& record : all)
    if (record.seq > stored) RC_ASSERT(std::count(kept.begin(), kept.end(), record) == 1);
}

TEST(Journal, KeepsTheSettingsThatHoldAndTheRunsThatNobodyStored) {
  std::vector<JournalRecord> records;
  const auto add = [&](RecordBody body) { records.push_back({records.size() + 1, {}, {}, std::move(body)}); };
  for (RunNumber run = 1; run <= 3; ++run) {
    add(RunStarted{run, {static_cast<pid_t>(run), run}, {}});
    add(JobSettingsChanged{R"({"stop_grace_ms":)" + std::to_string(run) + "}"});
    if (run == 1) add(JobSettingsChanged{R"({"log_rotations":7})"});
    add(RunEnded{.run = run, .usage = {}, .ordered = {}});
    add(RestartScheduled{run + 1, Millis{1}, run, {}});
  }
  std::vector<std::uint64_t> seqs;
  for (const auto& record : StillNeeded(records, 9)) seqs.push_back(record.seq);
  EXPECT_EQ(seqs, (std::vector<std::uint64_t>{3, 10, 11, 12, 13}));
}

}  // namespace
}  // namespace gpuman::keeper
