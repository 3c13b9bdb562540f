#include "keeper/journal_writer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/file.h"
#include "base/test_temp_dir.h"

namespace gpuman::keeper {
namespace {

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
  for (int i = 0; i < 100; ++i) writer.Append(ClockPauseChanged{i % 2 == 0});
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
  for (int i = 0; i < 100; ++i) writer.Append(ClockPauseChanged{i % 2 == 0});
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
  const auto end =
      EachRecord(dir_.path(), [&](const JournalRecord& record) { ASSERT_EQ(record.seq, ++seen); });
  ASSERT_TRUE(end);
  EXPECT_EQ(seen, count);
  EXPECT_EQ(end->whole_bytes, whole);
  EXPECT_TRUE(end->torn);
}

TEST_F(WriterTest, CutsATornLineOffSoThatWhatFollowsCanBeRead) {
  const std::string whole = EncodeLine({1, {}, {}, KeeperStarted{{100, 5000}, "boot", "", "key", "0.1"}});
  for (const std::size_t torn : {std::size_t{1}, whole.size() / 2, whole.size() - 2}) {
    std::ofstream(dir_.path() / "journal") << whole << whole.substr(0, torn);
    auto writer = Open();
    writer.Append(StopOrdered{{"a", ""}});
    ASSERT_TRUE(writer.Flush().result);
    const auto content = ReadJournal(dir_.path()).value();
    EXPECT_FALSE(content.end.torn);
    ASSERT_EQ(content.records.size(), 2u);
    EXPECT_EQ(content.records[1].seq, 2u);
  }
}

TEST_F(WriterTest, KeepsALastRecordThatLacksOnlyItsNewline) {
  const std::string whole = EncodeLine({1, {}, {}, KeeperStarted{{100, 5000}, "boot", "", "key", "0.1"}});
  std::ofstream(dir_.path() / "journal") << whole.substr(0, whole.size() - 1);
  auto writer = Open();
  EXPECT_EQ(history_.keeper->key, "key");
  writer.Append(StopOrdered{{"a", ""}});
  ASSERT_TRUE(writer.Flush().result);
  const auto content = ReadJournal(dir_.path()).value();
  EXPECT_EQ(content.records.size(), 2u);
  EXPECT_EQ(content.end, JournalEnd{.whole_bytes = Text().size()});
}

TEST_F(WriterTest, LeavesADamagedJournalAsItIs) {
  auto writer = Open();
  for (int i = 0; i < 3; ++i) writer.Append(StopOrdered{{"a", ""}});
  ASSERT_TRUE(writer.Flush().result);
  std::string damaged = Text();
  damaged[damaged.find('\n') + 20] ^= 1;
  std::ofstream(dir_.path() / "journal") << damaged << "torn";
  const auto again = JournalWriter::Open(dir_.path(), clock_, history_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, base::ErrorCode::kCorrupt);
  EXPECT_EQ(again.error().message, "line 2 of " + (dir_.path() / "journal").string() + " is damaged");
  EXPECT_EQ(writer.Shorten(dir_.path(), 3).error().code, base::ErrorCode::kCorrupt);
  EXPECT_EQ(Text(), damaged + "torn");
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
  EXPECT_FALSE(ReadJournal(dir_.path())->end.torn);
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
