#include "jobs/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <condition_variable>
#include <fstream>
#include <mutex>

#include "base/temp_dir.h"
#include "jobs/store_worker.h"

namespace gpuman::jobs {
namespace {

using base::ErrorCode;

Job Named(std::int64_t id, std::string tag) {
  Job job;
  job.id = {id};
  job.tag = std::move(tag);
  return job;
}

Event Numbered(std::int64_t id) {
  return {id, base::WallTime(base::Millis(id)), "job_started", 1, "t", std::nullopt, "m", {{"pid", id}}};
}

class StoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> Opened() {
    auto store = Store::Open(file);
    EXPECT_TRUE(store) << store.error().message;
    return store ? std::move(*store) : nullptr;
  }
  base::Error Refusal() {
    auto store = Store::Open(file);
    EXPECT_FALSE(store);
    return store ? base::Error{} : store.error();
  }

  base::TempDir dir;
  std::filesystem::path file = dir.path() / "gpuman.db";
};

TEST_F(StoreTest, KeepsJobsAndEventsOverAReopening) {
  {
    auto store = Opened();
    Batch batch;
    batch.put = {Named(1, "a"), Named(2, "b")};
    batch.events = {Numbered(1), Numbered(2), Numbered(3)};
    ASSERT_TRUE(store->Write(batch));
    batch = {};
    batch.put = {Named(2, "c")};
    batch.erase = {{1}};
    batch.first_event_kept = 2;
    ASSERT_TRUE(store->Write(batch));
  }
  auto contents = Opened()->Load(10);
  ASSERT_TRUE(contents);
  ASSERT_EQ(contents->jobs.size(), 1U);
  EXPECT_EQ(contents->jobs[0].tag, "c");
  EXPECT_EQ(contents->events, (std::vector{Numbered(2), Numbered(3)}));
}

TEST_F(StoreTest, NeverGivesAnIdTwice) {
  auto store = Opened();
  Batch batch;
  batch.put = {Named(9, "a")};
  batch.events = {Numbered(5)};
  ASSERT_TRUE(store->Write(batch));
  batch = {};
  batch.erase = {{9}};
  batch.first_event_kept = 6;
  ASSERT_TRUE(store->Write(batch));
  store.reset();
  auto contents = Opened()->Load(10);
  ASSERT_TRUE(contents);
  EXPECT_TRUE(contents->jobs.empty());
  EXPECT_EQ(contents->last_job_id, 9);
  EXPECT_EQ(contents->last_event_id, 5);
}

TEST_F(StoreTest, LoadsTheNewestEventsWhenThereAreMore) {
  auto store = Opened();
  Batch batch;
  for (int i = 1; i <= 9; ++i) batch.events.push_back(Numbered(i));
  ASSERT_TRUE(store->Write(batch));
  auto contents = store->Load(2);
  ASSERT_TRUE(contents);
  EXPECT_EQ(contents->events, (std::vector{Numbered(8), Numbered(9)}));
}

TEST_F(StoreTest, IsReadableForItsOwnerAlone) {
  auto store = Opened();
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(StoreTest, RefusesAFullDiskAndLeavesNothingHalfWritten) {
  auto store = Opened();
  store->SetFull(true);
  Batch batch;
  batch.put = {Named(1, "small")};
  batch.events.push_back(Numbered(1));
  batch.events[0].message = std::string(100'000, 'x');
  const auto outcome = store->Write(batch);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kExhausted);
  EXPECT_NE(outcome.error().hint.find("free space"), std::string::npos);
  EXPECT_TRUE(store->Load(10)->jobs.empty());

  store->SetFull(false);
  const auto again = store->Write(batch);
  EXPECT_TRUE(again) << again.error().message;
  EXPECT_EQ(store->Load(10)->jobs.size(), 1U);
}

TEST_F(StoreTest, RefusesAFileThatIsNoDatabaseAndLeavesItAlone) {
  const std::string text = "this is not a database, whatever its name says; it goes on for a while";
  std::ofstream(file) << text;
  const auto error = Refusal();
  EXPECT_EQ(error.code, ErrorCode::kCorrupt) << error.message;
  EXPECT_NE(error.hint.find("move"), std::string::npos);
  std::ifstream in(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);
}

TEST_F(StoreTest, RefusesADamagedDatabase) {
  {
    auto store = Opened();
    Batch batch;
    for (int i = 1; i < 200; ++i) batch.put.push_back(Named(i, std::string(200, 't')));
    ASSERT_TRUE(store->Write(batch));
  }
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  EXPECT_EQ(Refusal().code, ErrorCode::kCorrupt);
}

TEST_F(StoreTest, RefusesARecordThatCannotBeRead) {
  Opened();
  SQLite::Database(file.string(), SQLite::OPEN_READWRITE)
      .exec("INSERT INTO jobs VALUES(3,'t','u','running','{\"id\":3')");
  const auto contents = Opened()->Load(10);
  ASSERT_FALSE(contents);
  EXPECT_EQ(contents.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(contents.error().message.find("job 3"), std::string::npos);
}

TEST_F(StoreTest, RefusesADatabaseOfANewerVersionAndChangesNothing) {
  Opened();
  SQLite::Database(file.string(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version=99");
  const auto error = Refusal();
  EXPECT_EQ(error.code, ErrorCode::kNotSupported);
  EXPECT_NE(error.message.find("newer"), std::string::npos);
  EXPECT_EQ(SQLite::Database(file.string()).execAndGet("PRAGMA user_version").getInt(), 99);
}

TEST_F(StoreTest, RefusesADatabaseOfAnotherProgram) {
  SQLite::Database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE x(y)");
  EXPECT_EQ(Refusal().code, ErrorCode::kCorrupt);
}

TEST_F(StoreTest, RefusesADirectoryThatIsNotThereWithAHint) {
  file = dir.path() / "missing" / "gpuman.db";
  EXPECT_FALSE(Refusal().hint.empty());
}

TEST_F(StoreTest, RefusesAReadOnlyFile) {
  Opened();
  ASSERT_EQ(::chmod(file.c_str(), 0400), 0);
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  EXPECT_EQ(Refusal().code, ErrorCode::kPermissionDenied);
}

// A store that refuses batches with a job of the tag "bad", to see what becomes of the others.
class PickyStore final : public Store {
 public:
  explicit PickyStore(std::vector<std::string>& written) : written_(written) {}
  base::Result<StoreContents> Load(std::size_t) override { return StoreContents{}; }
  base::Result<> Write(const Batch& batch) override {
    for (const Job& job : batch.put)
      if (job.tag == "bad") return base::Fail(ErrorCode::kExhausted, "full");
    for (const Job& job : batch.put) written_.push_back(job.tag);
    return {};
  }
  void SetFull(bool) override {}

 private:
  std::vector<std::string>& written_;
};

TEST(StoreWorker, AnswersEachBatchForItselfAndInOrder) {
  std::vector<std::string> written;
  std::vector<std::string> answers;
  {
    // Post runs on the worker here; its destructor waits for all of them.
    StoreWorker worker(std::make_unique<PickyStore>(written), [](auto task) { task(); });
    for (const char* tag : {"a", "bad", "b", "c"}) {
      Batch batch;
      batch.put = {Named(1, tag)};
      worker.Submit(std::move(batch),
                    [&, tag](auto outcome) { answers.push_back(std::string(tag) + (outcome ? "+" : "-")); });
    }
  }
  EXPECT_EQ(written, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(answers, (std::vector<std::string>{"a+", "bad-", "b+", "c+"}));
}

}  // namespace
}  // namespace gpuman::jobs
