#include "daemon/history/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "base/test_temp_dir.h"

namespace gpuman::daemon {
namespace {

using history::Metric;

const history::Key kGpu{history::SubjectKind::kGpu, "GPU-1"}, kJob{history::SubjectKind::kJob, "7"};
constexpr std::int64_t kStart = 1'700'000'000;

// Threads and the loop are lists whose work the test does when it wants to.
struct ArchiveTest : testing::Test {
  void Make(ArchiveSettings settings = {base::MiB(8), base::Millis(60'000), 2}) {
    archive = std::make_unique<Archive>(
        dir.path() / "history", settings, [this](auto work) { thread.push_back(std::move(work)); },
        [this](auto work) { loop.push_back(std::move(work)); }, [](const auto&) { return true; });
  }
  static void Do(std::deque<std::function<void()>>& works) {
    for (; !works.empty(); works.pop_front()) works.front()();
  }
  void DoAll() {
    while (!thread.empty() || !loop.empty()) {
      Do(thread);
      Do(loop);
    }
  }
  void Record(const history::Key& key, std::int64_t from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      history::HistorySample reading;
      reading[Metric::kMemory] = from + i - kStart;
      archive->Add(key, from + i, reading);
    }
  }
  // The seconds that are known of an hour.
  std::uint32_t Known(const history::Key& key, std::int64_t since = kStart, std::int64_t points = 2000) {
    const auto answer = archive->Ask({key, since, since + 1000, points, since + 1000})();
    std::uint32_t known = 0;
    for (const auto& row : answer.rows) known += row.seconds;
    return known;
  }
  static base::MonoTime At(int second) { return base::MonoTime(std::chrono::seconds(second)); }

  base::TempDir dir;
  std::deque<std::function<void()>> thread, loop;
  std::unique_ptr<Archive> archive;
};

TEST_F(ArchiveTest, RecordsOnceItsFilesAreRead) {
  Make();
  EXPECT_FALSE(archive->is_recording());
  Record(kGpu, kStart, 5);
  DoAll();
  ASSERT_TRUE(archive->is_recording());
  EXPECT_EQ(Known(kGpu), 0u);
  Record(kGpu, kStart, 5);
  EXPECT_EQ(Known(kGpu), 5u);
}

TEST_F(ArchiveTest, AnswersTheSameBeforeWhileAndAfterItWrites) {
  Make();
  DoAll();
  Record(kGpu, kStart, 100);
  EXPECT_EQ(Known(kGpu), 100u);
  EXPECT_EQ(Known(kGpu, kStart, 10), 100u);
  archive->OnTick(At(60), kStart + 100);
  Record(kGpu, kStart + 100, 5);
  const auto early = archive->Ask({kGpu, kStart, kStart + 1000, 1000, kStart + 105});
  EXPECT_EQ(Known(kGpu), 105u);  // the thread has not written yet
  Do(thread);
  EXPECT_EQ(Known(kGpu), 105u);  // the loop does not know yet that it has
  std::uint32_t known = 0;
  for (const auto& row : early().rows) known += row.seconds;
  EXPECT_EQ(known, 105u);  // asked before, answered after
  DoAll();
  EXPECT_EQ(Known(kGpu), 105u);
  EXPECT_EQ(Known(kGpu, kStart, 10), 105u);
}

TEST_F(ArchiveTest, WritesWhenItIsTimeAndOneBatchAtATime) {
  Make();
  DoAll();
  Record(kGpu, kStart, 5);
  archive->OnTick(At(60), kStart + 5);
  EXPECT_EQ(thread.size(), 1u);
  Record(kGpu, kStart + 5, 5);
  archive->OnTick(At(200), kStart + 10);
  EXPECT_EQ(thread.size(), 1u);
  DoAll();
  archive->OnTick(At(201), kStart + 10);
  EXPECT_EQ(thread.size(), 1u);
  DoAll();
  Record(kGpu, kStart + 10, 5);
  archive->OnTick(At(202), kStart + 15);
  EXPECT_TRUE(thread.empty());
}

TEST_F(ArchiveTest, KeepsAllOverARestart) {
  Make();
  DoAll();
  Record(kGpu, kStart, 700);
  Record(kJob, kStart, 50);
  archive->End(kJob);
  archive->Stop(kStart + 700);
  Make();
  DoAll();
  EXPECT_EQ(Known(kGpu), 700u);
  EXPECT_EQ(Known(kGpu, kStart, 100), 700u);
  EXPECT_EQ(Known(kGpu, kStart, 3), 700u);
  EXPECT_EQ(Known(kJob), 50u);
}

TEST_F(ArchiveTest, KeepsWhatWasWrittenWhenItIsKilled) {
  Make();
  DoAll();
  Record(kGpu, kStart, 601);
  archive->OnTick(At(60), kStart + 600);
  Do(thread);
  archive.reset();
  Make();
  DoAll();
  for (const int points : {1000, 100, 3}) EXPECT_GE(Known(kGpu, kStart, points), 600u) << points;
}

TEST_F(ArchiveTest, AnswersAboutAllOfASeriesWithoutABeginning) {
  Make();
  DoAll();
  Record(kJob, kStart, 50);
  archive->End(kJob);
  archive->OnTick(At(60), kStart + 60);
  DoAll();
  const auto answer = archive->Ask({kJob, {}, {}, 300, kStart + 100'000})();
  EXPECT_LE(answer.plan.since, kStart);
  EXPECT_GT(answer.plan.since, kStart - 2000);
  EXPECT_GE(answer.plan.until, kStart + 50);
  EXPECT_LT(answer.plan.until, kStart + 2000);
  EXPECT_EQ(Known(kJob), 50u);
}

TEST_F(ArchiveTest, SaysWhyNothingIsRecorded) {
  std::ofstream(dir.path() / "history") << "a file";
  Make();
  DoAll();
  EXPECT_FALSE(archive->is_recording());
  EXPECT_THAT(archive->problem(), testing::HasSubstr("history"));
  std::filesystem::remove(dir.path() / "history");
  archive->SetSettings({base::MiB(8), base::Millis(60'000), 2});
  DoAll();
  EXPECT_TRUE(archive->is_recording());
  EXPECT_EQ(archive->problem(), "");
}

TEST_F(ArchiveTest, RecordsNothingWithoutDisk) {
  Make({{}, base::Millis(60'000), 2});
  DoAll();
  EXPECT_FALSE(archive->is_recording());
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "history"));
  archive->SetSettings({base::MiB(8), base::Millis(60'000), 2});
  DoAll();
  EXPECT_TRUE(archive->is_recording());
}

TEST_F(ArchiveTest, WritesEarlyWhenManyJobsEnd) {
  Make();
  DoAll();
  archive->OnTick(At(60), kStart);
  DoAll();
  for (int i = 0; i < 5000; ++i) {
    const history::Key job{history::SubjectKind::kJob, std::to_string(i)};
    Record(job, kStart, 1);
    archive->End(job);
  }
  archive->OnTick(At(61), kStart + 1);
  EXPECT_EQ(thread.size(), 1u);
  DoAll();
  EXPECT_EQ(Known({history::SubjectKind::kJob, "4999"}), 1u);
}

TEST_F(ArchiveTest, MayEndWhileAThreadWorks) {
  Make();
  archive.reset();
  DoAll();
}

}  // namespace
}  // namespace gpuman::daemon
