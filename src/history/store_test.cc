#include "history/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/file.h"
#include "base/test_temp_dir.h"
#include "history/segment.h"
#include "history/test_rows.h"

namespace gpuman::history {
namespace {

struct StoreTest : testing::Test {
  std::unique_ptr<Store> Open(base::Bytes budget = base::MiB(8)) {
    auto store = Store::Open(folder, budget, [this](const std::string& text) { log.push_back(text); });
    EXPECT_TRUE(store) << (store ? "" : store.error().message);
    return std::move(*store);
  }
  static std::vector<Row> Read(const Store& store, const Key& key, std::size_t tier, std::int64_t from = 0,
                               std::int64_t until = kLastTime) {
    std::vector<Row> rows;
    Store::Read(store.ViewOf(key.kind, tier), key.name, from, until,
                [&](const Row& row) { rows.push_back(row); });
    return rows;
  }
  std::vector<std::filesystem::path> Files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }
  std::uint64_t SizeOnDisk() const {
    std::uint64_t sum = 0;
    for (const auto& path : Files()) sum += std::filesystem::file_size(path);
    return sum;
  }

  base::TempDir dir;
  std::filesystem::path folder = dir.path() / "history";
  std::vector<std::string> log;
};

std::vector<Row> Rows(std::int64_t from, int count, std::int64_t step = 1) {
  std::vector<Row> rows;
  rows.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) rows.push_back(MemoryRow(from + i * step, i % 7));
  return rows;
}

// Rows that do not compress.
std::vector<Row> Noise(std::int64_t from, int count) {
  std::vector<Row> rows;
  std::uint64_t seed = static_cast<std::uint64_t>(from) + 1;
  for (int i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    rows.push_back(MemoryRow(from + i, static_cast<std::int64_t>(seed >> 32)));
  }
  return rows;
}

TEST_F(StoreTest, ReadsWhatWasWrittenAlsoAfterARestart) {
  auto store = Open();
  ASSERT_TRUE(store->Write({{kGpu, 0, Rows(100, 50)}, {kJob, 0, Rows(120, 3)}}, 1));
  ASSERT_TRUE(store->Write({{kGpu, 0, Rows(150, 50)}}, 2));
  EXPECT_EQ(Read(*store, kGpu, 0).size(), 100u);
  EXPECT_EQ(store->ViewOf(SubjectKind::kGpu, 0).written, 2u);
  store = Open();
  EXPECT_EQ(Read(*store, kGpu, 0).size(), 100u);
  EXPECT_EQ(Read(*store, kJob, 0), Rows(120, 3));
  EXPECT_EQ(Read(*store, kGpu, 0, 120, 160).size(), 40u);
  const auto range = Store::RangeOf(store->ViewOf(SubjectKind::kJob, 0), "7");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 120);
  EXPECT_EQ(range->last, 122);
  EXPECT_FALSE(Store::RangeOf(store->ViewOf(SubjectKind::kJob, 0), "8"));
  EXPECT_EQ(store->Oldest(SubjectKind::kGpu)[0], 100);
  EXPECT_EQ(store->Oldest(SubjectKind::kGpu)[1], std::nullopt);
  ASSERT_TRUE(store->Write({{kGpu, 0, Rows(200, 1)}}, 1));
  EXPECT_EQ(Files().size(), 2u);
  EXPECT_THAT(log, testing::IsEmpty());
}

TEST_F(StoreTest, StaysWithinItsBudgetAndLosesTheOldest) {
  const auto budget = base::MiB(1);
  auto store = Open(budget);
  std::int64_t at = 0;
  for (std::uint64_t i = 1; i <= 200; ++i) {
    Batch batch;
    for (std::size_t tier = 0; tier < kTiers; ++tier)
      for (const Key& key : {kGpu, kJob}) batch.push_back({key, tier, Noise(at, 500)});
    at += 500;
    ASSERT_TRUE(store->Write(batch, i));
    EXPECT_LE(SizeOnDisk(), budget.count);
    EXPECT_EQ(store->size().count, SizeOnDisk());
  }
  const auto rows = Read(*store, kGpu, 2);
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows.back().at, at - 1);
  EXPECT_GT(rows.front().at, 0);
  EXPECT_EQ(*store->Oldest(SubjectKind::kGpu)[2], rows.front().at);
  store = Open(budget);
  EXPECT_EQ(Read(*store, kGpu, 2), rows);
}

TEST_F(StoreTest, LosesNoGpuForManyJobs) {
  auto store = Open(base::MiB(1));
  ASSERT_TRUE(store->Write({{kGpu, 0, Rows(0, 100)}}, 1));
  for (std::uint64_t i = 2; i < 200; ++i)
    ASSERT_TRUE(store->Write({{{SubjectKind::kJob, std::to_string(i)}, 0, Noise(0, 500)}}, i));
  EXPECT_EQ(Read(*store, kGpu, 0).size(), 100u);
  EXPECT_TRUE(Read(*store, {SubjectKind::kJob, "2"}, 0).empty());
  EXPECT_EQ(Read(*store, {SubjectKind::kJob, "199"}, 0).size(), 500u);
}

TEST_F(StoreTest, KeepsLessWhenTheBudgetShrinks) {
  auto store = Open(base::MiB(8));
  for (std::uint64_t i = 1; i <= 100; ++i)
    ASSERT_TRUE(store->Write({{kGpu, 2, Noise(static_cast<std::int64_t>(i) * 1000, 1000)}}, i));
  EXPECT_GT(SizeOnDisk(), base::MiB(1).count / 3);
  store->SetBudget(base::MiB(1));
  EXPECT_LE(SizeOnDisk(), base::MiB(1).count / 3);
}

TEST_F(StoreTest, GoesOnBehindATornEnd) {
  auto store = Open();
  ASSERT_TRUE(store->Write({{kGpu, 0, Rows(0, 10)}}, 1));
  ASSERT_TRUE(store->Write({{kGpu, 0, Rows(10, 10)}}, 2));
  const auto path = Files().front();
  const auto whole = *base::ReadFile(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    log.clear();
    for (const auto& other : Files()) std::filesystem::remove(other);
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    store = Open();
    const auto rows = Read(*store, kGpu, 0).size();
    EXPECT_TRUE(rows == 0 || rows == 10) << size;
    ASSERT_TRUE(store->Write({{kGpu, 0, Rows(20, 10)}}, 1));
    EXPECT_EQ(Read(*store, kGpu, 0).size(), rows + 10) << size;
    EXPECT_LE(log.size(), 1u);
    store = Open();
    EXPECT_EQ(Read(*store, kGpu, 0).size(), rows + 10) << size;
  }
}

TEST_F(StoreTest, LeavesOutADamagedBlockWithOneLine) {
  auto store = Open();
  for (std::uint64_t i = 1; i <= 3; ++i)
    ASSERT_TRUE(store->Write({{kGpu, 0, Rows(static_cast<std::int64_t>(i) * 10, 10)}}, i));
  const auto path = Files().front();
  auto text = *base::ReadFile(path);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  std::ofstream(path, std::ios::binary) << text;
  store = Open();
  EXPECT_EQ(Read(*store, kGpu, 0).size(), 20u);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_THAT(log[0], testing::HasSubstr("1 damaged blocks"));
}

TEST_F(StoreTest, LeavesForeignFilesAlone) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "notes.txt") << "mine";
  std::ofstream(folder / "gpu-1s-00000003.history") << "no history at all";
  std::filesystem::create_directory(folder / "gpu-1s-00000004.history");
  auto store = Open();
  ASSERT_TRUE(store->Write({{kGpu, 0, Rows(0, 10)}}, 1));
  EXPECT_EQ(Read(*store, kGpu, 0).size(), 10u);
  EXPECT_TRUE(std::filesystem::exists(folder / "notes.txt"));
  EXPECT_EQ(log.size(), 2u);
}

TEST_F(StoreTest, ReadsOnWhereAFileWasRemoved) {
  auto store = Open();
  ASSERT_TRUE(store->Write({{kGpu, 0, Rows(0, 10)}}, 1));
  std::filesystem::remove(Files().front());
  EXPECT_TRUE(Read(*store, kGpu, 0).empty());
  EXPECT_TRUE(store->Write({{kGpu, 0, Rows(10, 10)}}, 2));
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(store->Write({{kGpu, 0, Rows(20, 10)}}, 3));
  EXPECT_EQ(Read(*store, kGpu, 0).size(), 10u);
}

// On a full disk, a part of the bytes may be written.
TEST_F(StoreTest, GoesOnBehindAWriteThatFailed) {
  auto store = Open();
  ASSERT_TRUE(store->Write({{kGpu, 0, Rows(0, 10)}}, 1));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = std::filesystem::file_size(Files().front()) + 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto failed = store->Write({{kGpu, 0, Noise(10, 500)}}, 2);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(failed);
  EXPECT_EQ(Read(*store, kGpu, 0), Rows(0, 10));
  ASSERT_TRUE(store->Write({{kGpu, 0, Rows(600, 10)}}, 3));
  EXPECT_EQ(Read(*store, kGpu, 0).size(), 20u);
  store = Open();
  EXPECT_EQ(Read(*store, kGpu, 0).size(), 20u);
  EXPECT_THAT(log, testing::IsEmpty());
}

TEST_F(StoreTest, CannotBeOpenedWhereThereIsNoFolder) {
  std::ofstream(folder) << "a file";
  EXPECT_FALSE(Store::Open(folder, base::MiB(8), [](const std::string&) {}));
}

TEST_F(StoreTest, ReplaysWhatIsInNoCoarserRowYet) {
  auto store = Open();
  Recorder before(2);
  std::uint64_t number = 0;
  std::int64_t at = 1'000'000;
  for (const std::int64_t end = at + 40'000; at < end; ++at) {
    before.Add(kGpu, at, Of(at % 1000));
    before.Add(kJob, at, Of(at % 100));
    if (at % 60 == 0) {
      ASSERT_TRUE(store->Write(before.Take(at), ++number));
    }
  }
  ASSERT_TRUE(store->Write(before.Take(at), ++number));
  store = Open();
  Recorder after(2);
  store->Replay(after, [](const Key& key) { return key.kind == SubjectKind::kGpu; });
  for (const Key& key : {kGpu, kJob}) {
    before.Add(key, at, Of(1));
    after.Add(key, at, Of(1));
  }
  for (std::size_t tier = 1; tier < kTiers; ++tier) {
    EXPECT_EQ(before.RowsOf(kGpu, tier), after.RowsOf(kGpu, tier));
    EXPECT_NE(before.RowsOf(kJob, tier), after.RowsOf(kJob, tier));
  }
  EXPECT_EQ(after.RowsOf(kGpu, 0).size(), 1u);
}

}  // namespace
}  // namespace gpuman::history
