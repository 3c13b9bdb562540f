#include "keeper/journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/temp_dir.h"
#include "keeper/journal_writer.h"

namespace gpuman::keeper {
namespace {

using base::Millis;

// One of every kind, a job that was restarted once and stopped.
std::vector<Record> Story() {
  const std::vector<RecordBody> bodies{
      KeeperStarted{{100, 5000}, "boot", "/sys/fs/cgroup/gpuman/job-1", "key", "0.1"},
      RunStarted{1, {101, 5001}, {"limit CORE could not be set"}},
      RunEnded{.run = 1,
               .kind = EndKind::kSignalled,
               .code = 9,
               .core_dumped = true,
               .lasted = Millis{1234},
               .usage = {std::chrono::microseconds{5}, std::chrono::microseconds{6}, base::MiB(7)},
               .ordered = Reason{"memory_limit", "used 600MiB of 512MiB"}},
      RestartScheduled{2, Millis{1000}, 1, std::nullopt},
      StartFailed{2, "command", 2, "command not found: py\xffthon"},
      RestartScheduled{3, Millis{0}, 0, Reason{"restart", ""}},
      RunStarted{3, {103, 5003}, {}},
      SettingsChanged{R"({"stop_grace_ms":5})"},
      ClockPaused{true},
      StopOrdered{{"stopped", "by lab1"}},
      RunEnded{
          .run = 3, .kind = EndKind::kExited, .code = 3, .lasted = Millis{1}, .usage = {}, .ordered = {}},
      JobEnded{3, "stopped"}};
  std::vector<Record> records;
  for (const auto& body : bodies) {
    const auto seq = records.size() + 1;
    records.push_back(
        {seq, base::WallTime(Millis{1'700'000'000'000}), Millis{static_cast<std::int64_t>(seq)}, body});
  }
  return records;
}

std::string TextOf(const std::vector<Record>& records) {
  std::string text;
  for (const auto& record : records) text += EncodeLine(record);
  return text;
}

TEST(Journal, ReadsBackEveryKindOfRecord) {
  const auto content = ParseJournal(TextOf(Story()));
  EXPECT_EQ(content.records, Story());
  EXPECT_FALSE(content.torn);
}

TEST(Journal, TornAtAnyByteYieldsExactlyTheWholeRecordsBefore) {
  const auto story = Story();
  const std::string text = TextOf(story);
  std::size_t whole = 0;
  std::size_t whole_bytes = 0;
  for (std::size_t length = 0; length <= text.size(); ++length) {
    if (length > 0 && text[length - 1] == '\n') {
      ++whole;
      whole_bytes = length;
    }
    const auto content = ParseJournal(std::string_view(text).substr(0, length));
    ASSERT_EQ(content.records.size(), whole) << length;
    ASSERT_EQ(content.valid_bytes, whole_bytes) << length;
    ASSERT_EQ(content.torn, length != whole_bytes) << length;
  }
}

TEST(Journal, AnAlteredByteIsNeverReadAsARecord) {
  const auto story = Story();
  const std::string text = TextOf(story);
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string altered = text;
    altered[at] = static_cast<char>(altered[at] ^ 0x04);
    const auto content = ParseJournal(altered);
    ASSERT_LT(content.records.size(), story.size()) << at;
    ASSERT_TRUE(content.torn) << at;
    for (std::size_t i = 0; i < content.records.size(); ++i) ASSERT_EQ(content.records[i], story[i]) << at;
  }
}

RC_GTEST_PROP(Journal, ReaderSurvivesAnyText, (const std::string& text)) {
  const auto content = ParseJournal(text);
  RC_ASSERT(content.valid_bytes <= text.size());
}

TEST(Journal, SkipsRecordsOfAKindThatALaterVersionKnows) {
  auto lines = TextOf({Story()[0]});
  // "12345678 {...}" with a right CRC, made from a known record by way of its own encoder.
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

// What a later keeper goes on by.
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
  EXPECT_EQ(a.restart, b.restart);
  EXPECT_EQ(a.in_a_row, b.in_a_row);
  EXPECT_EQ(a.job_ended, b.job_ended);
}

// Lives of a job, of all kinds of records but in an order that a keeper could write.
std::vector<Record> AnyStory() {
  std::vector<Record> records;
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
      add(SettingsChanged{
          *rc::gen::element<std::string>(R"({"stop_grace_ms":5})", R"({"log_rotations":3})", "?")});
    if (kind == 3) add(ClockPaused{true});
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
  std::vector<Record> records;
  const auto add = [&](RecordBody body) { records.push_back({records.size() + 1, {}, {}, std::move(body)}); };
  for (RunNumber run = 1; run <= 3; ++run) {
    add(RunStarted{run, {static_cast<pid_t>(run), run}, {}});
    add(SettingsChanged{R"({"stop_grace_ms":)" + std::to_string(run) + "}"});
    if (run == 1) add(SettingsChanged{R"({"log_rotations":7})"});
    add(RunEnded{.run = run, .usage = {}, .ordered = {}});
    add(RestartScheduled{run + 1, Millis{1}, run, {}});
  }
  std::vector<std::uint64_t> seqs;
  for (const auto& record : StillNeeded(records, 9)) seqs.push_back(record.seq);
  EXPECT_EQ(seqs, (std::vector<std::uint64_t>{3, 10, 11, 12, 13}));
}

class WriterTest : public ::testing::Test {
 protected:
  JournalWriter Open() { return JournalWriter::Open(dir_.path(), clock_, history_).value(); }
  std::string Text() { return base::ReadFile(dir_.path() / "journal").value(); }

  base::TempDir dir_;
  base::SystemClock clock_;
  JobHistory history_;
};

TEST_F(WriterTest, NumbersGoOnAfterAReopen) {
  auto first = Open();
  first.Append(StopOrdered{{"a", ""}});
  first.Append(StopOrdered{{"b", ""}});
  EXPECT_EQ(first.Flush().written.size(), 2u);
  auto second = Open();
  second.Append(StopOrdered{{"c", ""}});
  EXPECT_EQ(second.Flush().written.at(0).seq, 3u);
  EXPECT_EQ(ReadJournal(dir_.path())->records.size(), 3u);
}

TEST_F(WriterTest, GoesOnInAJournalThatWasShortened) {
  auto writer = Open();
  for (int i = 0; i < 100; ++i) writer.Append(ClockPaused{i % 2 == 0});
  writer.Append(StopOrdered{{"a", ""}});
  ASSERT_TRUE(writer.Flush().result);
  const auto before = Text().size();
  ASSERT_TRUE(writer.Shorten(dir_.path(), 101));
  EXPECT_LT(Text().size(), before / 50);
  writer.Append(StopOrdered{{"b", ""}});
  EXPECT_EQ(writer.Flush().written.at(0).seq, 102u);
  const auto records = ReadJournal(dir_.path())->records;
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].seq, 101u);
  EXPECT_EQ(records[1].seq, 102u);
  auto next = Open();
  EXPECT_EQ(next.NextSeq(), 103u);
}

TEST_F(WriterTest, LeavesTheJournalAsItIsWhereTheDiskTakesNoShorterOne) {
  auto writer = Open();
  for (int i = 0; i < 100; ++i) writer.Append(ClockPaused{i % 2 == 0});
  ASSERT_TRUE(writer.Flush().result);
  const auto before = Text();
  std::filesystem::create_directory(dir_.path() / "journal.new");
  EXPECT_FALSE(writer.Shorten(dir_.path(), 50));
  EXPECT_EQ(Text(), before);
  writer.Append(StopOrdered{{"a", ""}});
  EXPECT_EQ(writer.Flush().written.at(0).seq, 101u);
  EXPECT_EQ(ReadJournal(dir_.path())->records.size(), 101u);
}

TEST_F(WriterTest, AJournalOfAnyLengthIsReadInPieces) {
  std::string text;
  std::uint64_t count = 0;
  while (text.size() < (3u << 20))
    text += EncodeLine({++count, {}, {}, StopOrdered{{"stopped", std::string(1000, 'x')}}});
  const auto whole = text.size();
  std::ofstream(dir_.path() / "journal") << text << "torn";
  std::uint64_t seen = 0;
  const auto end = EachRecord(dir_.path(), [&](const Record& record) { ASSERT_EQ(record.seq, ++seen); });
  ASSERT_TRUE(end);
  EXPECT_EQ(seen, count);
  EXPECT_EQ(end->valid_bytes, whole);
  EXPECT_TRUE(end->torn);
}

TEST_F(WriterTest, CutsATornLineOffSoThatWhatFollowsCanBeRead) {
  const std::string whole = EncodeLine(Story()[0]);
  for (const std::size_t torn : {std::size_t{1}, whole.size() / 2, whole.size() - 1}) {
    std::ofstream(dir_.path() / "journal") << whole << whole.substr(0, torn);
    auto writer = Open();
    writer.Append(StopOrdered{{"a", ""}});
    ASSERT_TRUE(writer.Flush().result);
    const auto content = ReadJournal(dir_.path()).value();
    EXPECT_FALSE(content.torn);
    ASSERT_EQ(content.records.size(), 2u);
    EXPECT_EQ(content.records[1].seq, 2u);
  }
}

TEST_F(WriterTest, HoldsStillWhileTheChildMayWrite) {
  auto writer = Open();
  writer.Hold();
  writer.Append(StopOrdered{{"a", ""}});
  EXPECT_TRUE(writer.Flush().written.empty());
  EXPECT_TRUE(writer.Pending());
  ASSERT_TRUE(WriteRecord(writer.fd(), Stamp(clock_, writer.NextSeq(), RunStarted{1, {2, 3}, {}})));
  writer.Release(true);
  EXPECT_EQ(writer.Flush().written.at(0).seq, 2u);
  const auto records = ReadJournal(dir_.path())->records;
  ASSERT_EQ(records.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<RunStarted>(records[0].body));
}

TEST_F(WriterTest, FindsTheRecordOfAChildThatDiedWithoutAWord) {
  auto writer = Open();
  writer.Hold();
  ASSERT_TRUE(WriteRecord(writer.fd(), Stamp(clock_, writer.NextSeq(), RunStarted{1, {2, 3}, {}})));
  ASSERT_TRUE(base::WriteAll(writer.fd(), "torn"));
  const auto found = writer.ReleaseAfterLoss(dir_.path()).value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->seq, 1u);
  EXPECT_EQ(writer.NextSeq(), 2u);
  EXPECT_FALSE(ReadJournal(dir_.path())->torn);
}

TEST_F(WriterTest, KeepsWhatAFullDiskRefusesAndWritesItLater) {
  // A file size limit stands in for the full disk: the write fails after some bytes.
  auto writer = Open();
  writer.Append(StopOrdered{{"first", ""}});
  ASSERT_TRUE(writer.Flush().result);
  const auto before = Text();
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{before.size() + 10, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  writer.Append(StopOrdered{{"second", ""}});
  const auto refused = writer.Flush();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_FALSE(refused.result);
  EXPECT_TRUE(writer.Pending());
  EXPECT_EQ(Text(), before);
  EXPECT_EQ(writer.Flush().written.at(0).seq, 2u);
  EXPECT_FALSE(writer.Pending());
}

}  // namespace
}  // namespace gpuman::keeper
