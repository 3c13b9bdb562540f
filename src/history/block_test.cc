#include "history/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "history/segment.h"
#include "history/test_rows.h"

namespace gpuman::history {
namespace {

std::vector<Row> RowsOf(const std::string& block) {
  const auto head = ReadHead(block);
  EXPECT_TRUE(head);
  const auto rows = ReadRows(*head);
  EXPECT_TRUE(rows) << (rows ? "" : rows.error().message);
  return rows.value_or(std::vector<Row>{});
}

RC_GTEST_PROP(Block, ReadsAsItWasWritten, ()) {
  const auto rows = AnyRows();
  const auto block = EncodeBlock("GPU-1", rows);
  const auto head = ReadHead(block);
  RC_ASSERT(head.has_value());
  RC_ASSERT(head->name == "GPU-1");
  RC_ASSERT(head->first == rows.front().at);
  RC_ASSERT(head->last == rows.back().at);
  const auto read = ReadRows(*head);
  RC_ASSERT(read.has_value());
  RC_ASSERT(*read == rows);
}

RC_GTEST_PROP(Block, WithAnyByteChangedIsRefusedOrSound, ()) {
  auto block = EncodeBlock("GPU-1", AnyRows());
  block[*rc::gen::inRange<std::size_t>(0, block.size())] = *rc::gen::arbitrary<char>();
  const auto head = ReadHead(block);
  if (!head) return;
  const auto rows = ReadRows(*head);
  if (!rows) return;
  RC_ASSERT(std::all_of(rows->begin(), rows->end(), [](const Row& row) { return IsSound(row); }));
  RC_ASSERT(
      std::is_sorted(rows->begin(), rows->end(), [](const Row& a, const Row& b) { return a.at < b.at; }));
}

TEST(Block, CutAtAnyByteIsRefused) {
  std::vector<Row> rows;
  rows.reserve(20);
  for (int i = 0; i < 20; ++i) rows.push_back(MemoryRow(1'700'000'000 + i, i * i * 1000));
  const auto block = EncodeBlock("7", rows);
  for (std::size_t length = 0; length < block.size(); ++length) {
    const auto head = ReadHead(std::string_view(block).substr(0, length));
    EXPECT_FALSE(head && ReadRows(*head)) << length;
  }
}

TEST(Block, AnHourOfTheSameTakesLessThan150Bytes) {
  std::vector<Row> rows;
  HistorySample reading = Of(80 << 20);
  reading[Metric::kUtilization] = 97;
  reading[Metric::kPower] = 6830;
  reading[Metric::kTemperature] = 61;
  rows.reserve(3600);
  for (int i = 0; i < 3600; ++i) rows.push_back(RowOf(1'700'000'000 + i, reading));
  const auto block = EncodeBlock("GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6", rows);
  EXPECT_LT(block.size(), 150u);
  EXPECT_EQ(RowsOf(block), rows);
}

TEST(Block, AnUnknownValueStaysUnknownAndAGapStaysAGap) {
  std::vector<Row> rows{MemoryRow(100, 5), RowOf(101, {}), MemoryRow(500, 0)};
  const auto read = RowsOf(EncodeBlock("7", rows));
  ASSERT_EQ(read, rows);
  EXPECT_EQ(read[1][Metric::kMemory].count, 0u);
  EXPECT_EQ(read[2][Metric::kMemory].count, 1u);
}

TEST(Row, OfTwoReadingsInASecondHasTheLastAndTheExtremes) {
  Row row = MemoryRow(100, 5);
  Replace(row, Of(9));
  Replace(row, Of(7, JobActivityState::kSuspended));
  Replace(row, HistorySample{});
  EXPECT_EQ(row[Metric::kMemory], (Aggregate{1, 7, 5, 9}));
  EXPECT_EQ(row.seconds, 1u);
  EXPECT_EQ(row.suspended, 0u);
}

TEST(Row, WithAValueBeyondAllBoundsDoesNotKnowIt) {
  EXPECT_EQ(MemoryRow(1, kMaxValue + 1)[Metric::kMemory].count, 0u);
  EXPECT_EQ(MemoryRow(1, kMaxValue)[Metric::kMemory].count, 1u);
}

TEST(Row, ARowWithContradictingCountsIsNotSound) {
  Row row = MemoryRow(1, 5);
  EXPECT_TRUE(IsSound(row));
  row.waiting = row.suspended = 1;
  EXPECT_FALSE(IsSound(row));
  row = MemoryRow(1, 5);
  row[Metric::kMemory].min = 6;
  EXPECT_FALSE(IsSound(row));
  row = MemoryRow(1, 5);
  row[Metric::kPower].sum = 1;
  EXPECT_FALSE(IsSound(row));
}

// --- files

std::vector<std::int64_t> FirstTimes(std::string_view file, WalkResult& walked) {
  std::vector<std::int64_t> times;
  walked = WalkBlocks(
      file, [](const BlockHead&) { return true; },
      [&](const BlockHead& head) { times.push_back(head.first); });
  return times;
}

std::string FileOf(int blocks) {
  std::string file(kFileHeader);
  for (int i = 0; i < blocks; ++i) file += Framed(EncodeBlock("7", std::vector{MemoryRow(i, 1)}));
  return file;
}

TEST(File, CutAtAnyByteGivesTheBlocksBeforeIt) {
  const std::string file = FileOf(3);
  const std::size_t one = (file.size() - kFileHeader.size()) / 3;
  for (std::size_t length = 0; length < file.size(); ++length) {
    WalkResult walked;
    const auto times = FirstTimes(std::string_view(file).substr(0, length), walked);
    EXPECT_EQ(walked.foreign, length < kFileHeader.size()) << length;
    if (walked.foreign) continue;
    EXPECT_EQ(times.size(), (length - kFileHeader.size()) / one) << length;
    EXPECT_EQ(walked.readable, kFileHeader.size() + times.size() * one) << length;
  }
}

TEST(File, WithOneByteChangedLosesOneBlockOrWhatFollows) {
  const std::string file = FileOf(3);
  for (std::size_t at = kFileHeader.size(); at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    WalkResult walked;
    const auto times = FirstTimes(damaged, walked);
    EXPECT_LT(times.size(), 3u) << at;
    for (const auto time : times) EXPECT_LT(time, 3) << at;
    EXPECT_TRUE(walked.damaged > 0 || walked.readable < file.size()) << at;
  }
}

TEST(File, HasANameThatSaysWhatIsInIt) {
  EXPECT_EQ(NameOf({SubjectKind::kGpu, 1, 12}), "gpu-10s-00000012.history");
  const auto name = ParseFileName("job-300s-00000007.history");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->kind, SubjectKind::kJob);
  EXPECT_EQ(name->tier, 2u);
  EXPECT_EQ(name->number, 7u);
  for (const auto* other : {"", "gpu-10s-12.history", "gpu-20s-00000012.history", "gpu-10s-0000001x.history",
                            "gpu-10s-00000012.history~", "x-10s-00000012.history"})
    EXPECT_FALSE(ParseFileName(other)) << other;
}

}  // namespace
}  // namespace gpuman::history
