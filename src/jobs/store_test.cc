#include "jobs/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <condition_variable>
#include <fstream>
#include <future>
#include <mutex>

#include "base/test_temp_dir.h"
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

TEST_F(StoreTest, FindsTheNewestEventsOfAJob) {
  auto store = Opened();
  Batch batch;
  for (int i = 1; i <= 9; ++i) {
    batch.events.push_back(Numbered(i));
    batch.events.back().job = i % 3;
  }
  ASSERT_TRUE(store->Write(batch));
  const auto events = store->EventsOf({1}, 2);
  ASSERT_TRUE(events);
  EXPECT_EQ(*events, (std::vector{batch.events[3], batch.events[6]}));
  EXPECT_TRUE(store->EventsOf({5}, 2)->empty());
}

TEST_F(StoreTest, FindsTheEventsOfAGpuInATimeThatAreNoJobs) {
  auto store = Opened();
  Batch batch;
  for (int i = 1; i <= 6; ++i) {
    batch.events.push_back(Numbered(i));
    batch.events.back().at = base::WallTime(base::Millis(i));
    batch.events.back().gpu = i == 2 ? "GPU-b" : "GPU-a";
    batch.events.back().job.reset();
  }
  batch.events[3].job = 7;
  ASSERT_TRUE(store->Write(batch));
  const auto between = [&](int since, int until, std::size_t limit) {
    const auto events = store->EventsOfGpu("GPU-a", base::WallTime(base::Millis(since)),
                                           base::WallTime(base::Millis(until)), limit);
    std::vector<std::int64_t> ids;
    for (const Event& event : *events) ids.push_back(event.id);
    return ids;
  };
  EXPECT_EQ(between(1, 5, 10), (std::vector<std::int64_t>{1, 3, 5}));
  EXPECT_EQ(between(1, 6, 2), (std::vector<std::int64_t>{5, 6}));
  EXPECT_TRUE(between(7, 9, 10).empty());
}

TEST_F(StoreTest, KeepsWhatJobsHaveInCommonOnceAndGivesItBackShared) {
  spec::JobSpec asked;
  asked.project = "vision";
  const Shared<spec::JobSpec> shared(asked);
  const Environment environment = Variables{{"PATH", "/bin"}};
  const auto count = [&] {
    return SQLite::Database(file.string()).execAndGet("SELECT count(*) FROM shared").getInt();
  };
  {
    auto store = Opened();
    Batch batch;
    auto many = std::make_shared<std::vector<Job>>();
    for (int i = 1; i <= 100; ++i) {
      Job job = Named(i, "t");
      job.environment = environment;
      job.spec = shared;
      many->push_back(job);
    }
    batch.add = many;
    ASSERT_TRUE(store->Write(batch));
  }
  EXPECT_EQ(count(), 3);
  auto contents = Opened()->Load(0);
  ASSERT_TRUE(contents);
  ASSERT_EQ(contents->jobs.size(), 100U);
  EXPECT_EQ(contents->jobs[99].spec->project.value_or(""), asked.project);
  EXPECT_EQ(contents->jobs[0].spec.pointer(), contents->jobs[99].spec.pointer());
  EXPECT_EQ(contents->jobs[0].environment.pointer(), contents->jobs[99].environment.pointer());
}

TEST_F(StoreTest, DeletesWhatNoJobHasAnyMore) {
  auto store = Opened();
  for (int i = 1; i <= 1100; ++i) {
    Batch batch;
    Job job = Named(i, "t");
    job.environment = Variables{{"N", std::to_string(i)}};
    batch.put = {job};
    batch.erase = {{i - 50}};
    ASSERT_TRUE(store->Write(batch));
  }
  store.reset();
  EXPECT_LT(SQLite::Database(file.string()).execAndGet("SELECT count(*) FROM shared").getInt(), 400);
  const auto contents = Opened()->Load(0);
  ASSERT_TRUE(contents) << contents.error().message;
  for (const Job& job : contents->jobs) EXPECT_EQ(job.environment->at("N"), std::to_string(job.id.value));
}

TEST_F(StoreTest, APartWhoseBatchWasRefusedIsWrittenWithTheNextOne) {
  auto store = Opened();
  Batch batch;
  Job job = Named(1, std::string(100'000, 'x'));
  job.environment = Variables{{"A", "b"}};
  batch.put = {job};
  store->SetFull(true);
  ASSERT_FALSE(store->Write(batch));
  store->SetFull(false);
  ASSERT_TRUE(store->Write(batch));
  const auto contents = store->Load(0);
  ASSERT_TRUE(contents) << contents.error().message;
  EXPECT_EQ(contents->jobs.at(0).environment, job.environment);
}

TEST_F(StoreTest, KeepsRunsAndSettings) {
  auto store = Opened();
  RunAccount run{{7},
                 "ann",
                 "vision",
                 "resnet",
                 {"GPU-a", "GPU-b"},
                 base::GiB(2),
                 base::GiB(1),
                 base::WallTime(base::Millis(1000)),
                 base::WallTime(base::Millis(5000)),
                 base::Millis(10),
                 base::Millis(4000),
                 "finished",
                 12.5,
                 base::GiB(3),
                 62.25};
  Batch batch;
  batch.runs = {run};
  batch.settings = {{"queue", "{}"}, {"quota/user/ann", "[1]"}};
  ASSERT_TRUE(store->Write(batch));
  batch = {};
  batch.settings = {{"queue", std::nullopt}};
  ASSERT_TRUE(store->Write(batch));
  EXPECT_EQ(store->Load(0)->settings, (SettingRows{{"quota/user/ann", "[1]"}}));

  const auto between = [&](int since, int until) {
    std::vector<RunAccount> runs;
    EXPECT_TRUE(store->EachRun(base::WallTime(base::Millis(since)), base::WallTime(base::Millis(until)),
                               [&](const RunAccount& one) { runs.push_back(one); }));
    return runs;
  };
  EXPECT_EQ(between(0, 6000), std::vector{run});
  RunAccount unknown = run;
  unknown.ended += base::Millis(1);
  unknown.peak.reset();
  unknown.energy.reset();
  unknown.needed.reset();
  unknown.utilization.reset();
  batch = {};
  batch.runs = {unknown};
  ASSERT_TRUE(store->Write(batch));
  EXPECT_EQ(between(5001, 6000), std::vector{unknown});
  EXPECT_EQ(store->EndBeforeLastRuns(0), unknown.ended);
  EXPECT_EQ(store->EndBeforeLastRuns(1), run.ended);
  EXPECT_EQ(store->EndBeforeLastRuns(2), std::nullopt);
  EXPECT_TRUE(between(0, 5000).empty());
  batch = {};
  batch.first_run_kept = base::WallTime(base::Millis(5002));
  ASSERT_TRUE(store->Write(batch));
  EXPECT_TRUE(between(0, 6000).empty());
}

TEST_F(StoreTest, TakesOverTheDatabaseOfTheFirstVersion) {
  {
    SQLite::Database db(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec(R"(CREATE TABLE jobs(id INTEGER PRIMARY KEY AUTOINCREMENT, tag TEXT NOT NULL, user TEXT NOT NULL,
                                 state TEXT NOT NULL, record TEXT NOT NULL);
               CREATE TABLE events(id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL,
                                   kind TEXT NOT NULL, job INTEGER, tag TEXT, gpu TEXT, message TEXT NOT NULL,
                                   data TEXT NOT NULL);
               CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
               PRAGMA application_id=1735423341;
               PRAGMA user_version=1;)");
    db.exec(R"(INSERT INTO jobs VALUES(5,'train','lab1','running','{"id":5,"tag":"train","state":"running",
               "environment":{"PATH":"/bin"},"resource_limits":[[7,1024,2048]],"command":["python"]}'))");
  }
  {
    const auto contents = Opened()->Load(10);
    ASSERT_TRUE(contents) << contents.error().message;
    ASSERT_EQ(contents->jobs.size(), 1U);
    EXPECT_EQ(contents->jobs[0].environment, Environment(Variables{{"PATH", "/bin"}}));
    EXPECT_EQ(contents->last_job_id, 5);
    Batch batch;
    batch.put = contents->jobs;
    ASSERT_TRUE(Opened()->Write(batch));
  }
  const auto again = Opened()->Load(10);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->jobs.at(0).environment, Environment(Variables{{"PATH", "/bin"}}));
  EXPECT_EQ(*again->jobs.at(0).resource_limits, (ResourceLimits{{7, {1024, 2048}}}));
}

TEST_F(StoreTest, TakesOverADatabaseFromBeforeTheOutbox) {
  {
    Batch batch;
    batch.put = {Named(5, "train")};
    batch.settings["queue"] = "{}";
    ASSERT_TRUE(Opened()->Write(batch));
    SQLite::Database db(file.string(), SQLite::OPEN_READWRITE);
    db.exec(
        R"(DROP TABLE outbox; DROP INDEX events_by_job; DROP INDEX events_by_gpu; ALTER TABLE accounting DROP COLUMN name; ALTER TABLE accounting DROP COLUMN peak; ALTER TABLE accounting DROP COLUMN needed;
               ALTER TABLE accounting DROP COLUMN utilization;
               INSERT INTO accounting(job,user,project,gpus,memory,started_ms,ended_ms,waited_ms,ran_ms,gpu_seconds,
                                      gpu_byte_seconds,outcome) VALUES(5,'ann','','GPU-a',0,1,2,0,1,0,0,'finished');
               PRAGMA user_version=2;)");
  }
  auto store = Opened();
  store.reset();
  EXPECT_EQ(SQLite::Database(file.string()).execAndGet("PRAGMA user_version").getInt(), kStoreVersion);
  store = Opened();
  Batch batch;
  batch.outbox = {{1, 5, "ann", "r"}};
  ASSERT_TRUE(store->Write(batch));
  const auto contents = store->Load(10);
  ASSERT_TRUE(contents) << contents.error().message;
  EXPECT_EQ(contents->jobs.at(0).tag, "train");
  EXPECT_EQ(contents->settings.at("queue"), "{}");
  EXPECT_EQ(contents->outbox, batch.outbox);
  std::vector<RunAccount> runs;
  ASSERT_TRUE(store->EachRun({}, base::WallTime(base::Millis(9)),
                             [&](const RunAccount& one) { runs.push_back(one); }));
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].name, "") << "not known of runs from before";
  EXPECT_EQ(runs[0].peak, std::nullopt);
  EXPECT_EQ(runs[0].needed, std::nullopt);
  EXPECT_EQ(runs[0].utilization, std::nullopt);
}

TEST_F(StoreTest, KeepsMessagesUntilTheyAreErased) {
  const OutboxRow first{1, 7, "ann", "one"}, second{2, std::nullopt, "", "two"};
  {
    auto store = Opened();
    Batch batch;
    batch.outbox = {first, second};
    ASSERT_TRUE(store->Write(batch));
    batch = {};
    batch.outbox = {{1, 7, "ann", "one, again"}};
    ASSERT_TRUE(store->Write(batch));
  }
  {
    auto store = Opened();
    const auto contents = store->Load(10);
    EXPECT_EQ(contents->outbox, (std::vector<OutboxRow>{{1, 7, "ann", "one, again"}, second}));
    Batch batch;
    batch.outbox_erase = {1, 2, 9};
    ASSERT_TRUE(store->Write(batch));
  }
  const auto contents = Opened()->Load(10);
  EXPECT_TRUE(contents->outbox.empty());
  EXPECT_EQ(contents->last_outbox_number, 2);
}

TEST_F(StoreTest, WritesAMessageWithTheChangeItTellsOfOrNeither) {
  auto store = Opened();
  Batch batch;
  batch.put = {Named(1, "a")};
  batch.outbox = {{1, 1, "ann", std::string(100'000, 'x')}};
  store->SetFull(true);
  EXPECT_FALSE(store->Write(batch));
  store->SetFull(false);
  EXPECT_TRUE(store->Load(10)->jobs.empty());
  ASSERT_TRUE(store->Write(batch));
  EXPECT_EQ(store->Load(10)->jobs.size(), 1U);
  EXPECT_EQ(store->Load(10)->outbox, batch.outbox);
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

// Commits overwrite such a log. If the earlier daemon was killed, the log's content ends in zeros.
TEST_F(StoreTest, ALogThatHasItsLengthAlreadyIsReadUpToWhatWasWritten) {
  const auto log = file.string() + "-wal";
  auto store = Opened();
  if (std::filesystem::space(file).available < (1u << 30)) GTEST_SKIP() << "little room on the disk";
  const auto length = std::filesystem::file_size(log);
  EXPECT_GT(length, 4'000'000U);
  Batch batch;
  batch.put = {Named(1, "a"), Named(2, "b")};
  ASSERT_TRUE(store->Write(batch));
  EXPECT_EQ(std::filesystem::file_size(log), length);

  const auto left = dir.path() / "left.db";
  std::filesystem::copy_file(file, left);
  std::filesystem::copy_file(log, left.string() + "-wal");
  auto again = Store::Open(left);
  ASSERT_TRUE(again) << again.error().message;
  const auto contents = (*again)->Load(10);
  ASSERT_TRUE(contents) << contents.error().message;
  ASSERT_EQ(contents->jobs.size(), 2U);
  EXPECT_EQ(contents->jobs[1].tag, "b");
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
      .exec("INSERT INTO jobs(id,tag,user,state,record) VALUES(3,'t','u','running','{\"id\":3')");
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

// A store that refuses batches with a job of the tag "bad", to show what happens to the others.
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
  base::Result<> SomeRuns(RunCursor&, base::WallTime, std::size_t,
                          const std::function<void(const RunAccount&)>&) override {
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
    // Post runs its argument on the worker here; the worker's destructor waits for all of them.
    StoreWorker worker(std::make_unique<PickyStore>(written), [](auto task) { task(); });
    std::int64_t id = 0;
    for (const char* tag : {"a", "bad", "b", "c"}) {
      Batch batch;
      batch.put = {Named(++id, tag)};
      worker.Submit(std::move(batch),
                    [&, tag](auto outcome) { answers.push_back(std::string(tag) + (outcome ? "+" : "-")); });
    }
  }
  EXPECT_EQ(written, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(answers, (std::vector<std::string>{"a+", "bad-", "b+", "c+"}));
}

TEST(StoreWorker, RefusesWhatWasSubmittedOfAJobBeforeItsRefusalWasKnown) {
  std::vector<std::string> written;
  std::vector<std::string> answers;
  std::vector<std::function<void()>> posted;
  std::mutex mutex;
  std::condition_variable more;
  {
    StoreWorker worker(std::make_unique<PickyStore>(written), [&](auto task) {
      const std::lock_guard lock(mutex);
      posted.push_back(std::move(task));
      more.notify_one();
    });
    const auto put = [&](std::int64_t id, const char* tag) {
      Batch batch;
      batch.put = {Named(id, tag)};
      worker.Submit(std::move(batch),
                    [&, tag](auto outcome) { answers.push_back(std::string(tag) + (outcome ? "+" : "-")); });
    };
    const auto answer_until = [&](std::size_t count) {
      while (answers.size() < count) {
        std::unique_lock lock(mutex);
        more.wait(lock, [&] { return !posted.empty(); });
        const auto tasks = std::exchange(posted, {});
        lock.unlock();
        for (const auto& task : tasks) task();
      }
    };
    put(1, "bad");
    put(1, "a");  // lacks what belonged to the refused one
    put(2, "b");
    answer_until(3);
    put(1, "c");
    answer_until(4);
  }
  EXPECT_EQ(written, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(answers, (std::vector<std::string>{"bad-", "a-", "b+", "c+"}));
}

// Holds its first write until it is released, so that batches that come meanwhile are written together.
class HeldStore final : public Store {
 public:
  HeldStore(std::future<void> go, std::vector<Batch>& written) : go_(std::move(go)), written_(written) {}
  base::Result<StoreContents> Load(std::size_t) override { return StoreContents{}; }
  base::Result<> Write(const Batch& batch) override {
    if (go_.valid()) go_.get();
    written_.push_back(batch);
    return {};
  }
  base::Result<> SomeRuns(RunCursor&, base::WallTime, std::size_t,
                          const std::function<void(const RunAccount&)>&) override {
    return {};
  }
  void SetFull(bool) override {}

 private:
  std::future<void> go_;
  std::vector<Batch>& written_;
};

TEST(StoreWorker, LosesNoMessageOfBatchesThatItWritesTogether) {
  std::vector<Batch> written;
  std::promise<void> go;
  {
    StoreWorker worker(std::make_unique<HeldStore>(go.get_future(), written), [](auto task) { task(); });
    for (std::int64_t i = 1; i <= 4; ++i) {
      Batch batch;
      batch.outbox = {{i, i, "ann", "r"}};
      batch.outbox_erase = {100 + i};
      worker.Submit(std::move(batch), {});
    }
    go.set_value();
  }
  std::vector<std::int64_t> put, erased;
  for (const Batch& batch : written) {
    for (const OutboxRow& row : batch.outbox) put.push_back(row.number);
    erased.insert(erased.end(), batch.outbox_erase.begin(), batch.outbox_erase.end());
  }
  EXPECT_EQ(put, (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(erased, (std::vector<std::int64_t>{101, 102, 103, 104}));
  EXPECT_LT(written.size(), 4U);
}

// A loop whose functions the test calls.
class PostedFunctions {
 public:
  base::Executor Executor() {
    return [this](std::function<void()> act) {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(act));
      more_.notify_one();
    };
  }
  void RunUntil(const std::function<bool()>& is_over) {
    while (!is_over()) {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [&] { return !posted_.empty(); });
      const auto acts = std::exchange(posted_, {});
      lock.unlock();
      for (const auto& act : acts) act();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::function<void()>> posted_;
};

class StoreReadsTest : public testing::Test {
 protected:
  StoreWorker::UserRead Named(char name, std::function<bool()> is_cancelled = {}) {
    return {[this, name](Store&) { read += name; }, [this, name] { told += name; }, std::move(is_cancelled)};
  }
  void Read(uid_t user, const std::string& names) {
    for (const char name : names) EXPECT_TRUE(worker.ReadForUser(user, Named(name)));
  }
  // The worker stands still until the end of the result is called.
  std::promise<void> Hold() {
    std::promise<void> go;
    worker.Read([end = go.get_future().share()](Store&) { end.wait(); });
    return go;
  }
  void RunUntilTold(std::size_t count) {
    loop.RunUntil([&] { return told.size() == count; });
  }

  std::string read, told;
  std::vector<std::string> written;
  PostedFunctions loop;
  StoreWorker worker{std::make_unique<PickyStore>(written), loop.Executor(), 6};
};

TEST_F(StoreReadsTest, UsersTakeTurnsHoweverManyReadsOneOfThemHas) {
  auto go = Hold();
  Read(1, "abcdef");
  Read(2, "XY");
  Read(3, "Z");
  go.set_value();
  RunUntilTold(9);
  EXPECT_EQ(read, "aXZbYcdef");
  EXPECT_EQ(told, read);
}

TEST_F(StoreReadsTest, AReadOfAClientThatHasGoneIsSkipped) {
  auto go = Hold();
  bool gone = false;
  Read(1, "a");
  for (const char name : {'b', 'c', 'd'})
    EXPECT_TRUE(worker.ReadForUser(1, Named(name, [&gone] { return gone; })));
  Read(1, "e");
  gone = true;
  go.set_value();
  RunUntilTold(2);
  EXPECT_EQ(read, "ae");
}

TEST_F(StoreReadsTest, TheReadsOfAUserThatWaitHaveABound) {
  auto go = Hold();
  Read(1, "a");  // is the worker's already
  Read(1, "bcdefg");
  EXPECT_FALSE(worker.ReadForUser(1, Named('h')));
  Read(2, "X");
  go.set_value();
  RunUntilTold(8);
  EXPECT_EQ(read, "aXbcdefg");
}

TEST_F(StoreReadsTest, WritesGoBeforeReadsThatWait) {
  auto go = Hold();
  Read(1, "abc");
  bool is_written = false;
  Batch batch;
  batch.put = {jobs::Named(1, "job")};
  worker.Submit(std::move(batch), [&](const auto&) { is_written = true; });
  worker.Read([this](Store&) { read += written.empty() ? '-' : '+'; });
  go.set_value();
  RunUntilTold(3);
  EXPECT_TRUE(is_written);
  EXPECT_EQ(read, "a+bc") << "the daemon's own read waits for no more than one of a user";
}

std::shared_ptr<std::vector<Job>> Many(std::int64_t first, std::int64_t count) {
  auto jobs = std::make_shared<std::vector<Job>>();
  for (std::int64_t i = 0; i < count; ++i) jobs->push_back(Named(first + i, "many"));
  return jobs;
}

TEST(StoreWorker, WritesManyJobsInPartsAndWhatComesMeanwhileBetweenThem) {
  std::vector<Batch> written;
  std::promise<void> go;
  std::vector<std::string> answers;
  {
    StoreWorker worker(std::make_unique<HeldStore>(go.get_future(), written), [](auto task) { task(); });
    Batch first;
    first.put = {Named(1, "first")};
    worker.Submit(std::move(first), {});
    Batch many;
    many.add = Many(10, 5000);
    worker.Submit(std::move(many), [&](const auto&) { answers.emplace_back("many"); });
    Batch other;
    other.put = {Named(2, "other")};
    worker.Submit(std::move(other), [&](const auto&) { answers.emplace_back("other"); });
    go.set_value();
  }
  EXPECT_EQ(answers, (std::vector<std::string>{"other", "many"}));
  std::size_t next = 0, parts = 0;
  for (const Batch& batch : written) {
    if (!batch.add) continue;
    EXPECT_EQ(batch.add_from, next);
    next = batch.add_to;
    const auto mark = batch.settings.find(KeyOfArrival({{10}, {5009}}));
    const bool first = parts++ == 0, last = next == 5000;
    EXPECT_EQ(mark != batch.settings.end(), first || last);
    if (mark == batch.settings.end()) continue;
    EXPECT_EQ(mark->second.has_value(), first);
  }
  EXPECT_EQ(next, 5000u);
  EXPECT_GT(parts, 2u);
}

// A store that refuses the third part of many jobs.
class SoonFullStore final : public Store {
 public:
  explicit SoonFullStore(std::vector<Batch>& written) : written_(written) {}
  base::Result<StoreContents> Load(std::size_t) override { return StoreContents{}; }
  base::Result<> Write(const Batch& batch) override {
    if (batch.add && ++parts_ == 3) return base::Fail(ErrorCode::kExhausted, "full");
    written_.push_back(batch);
    return {};
  }
  base::Result<> SomeRuns(RunCursor&, base::WallTime, std::size_t,
                          const std::function<void(const RunAccount&)>&) override {
    return {};
  }
  void SetFull(bool) override {}

 private:
  std::vector<Batch>& written_;
  int parts_ = 0;
};

TEST(StoreWorker, OfManyJobsThatCannotAllBeWrittenNoneStays) {
  std::vector<Batch> written;
  base::Result<> outcome;
  {
    StoreWorker worker(std::make_unique<SoonFullStore>(written), [](auto task) { task(); });
    Batch many;
    many.add = Many(10, 5000);
    worker.Submit(std::move(many), [&](const auto& stored) { outcome = stored; });
  }
  EXPECT_FALSE(outcome);
  std::set<JobId> there;
  for (const Batch& batch : written) {
    if (batch.add)
      for (std::size_t i = batch.add_from; i < batch.add_to; ++i) there.insert((*batch.add)[i].id);
    for (const JobId id : batch.erase) there.erase(id);
  }
  EXPECT_TRUE(there.empty());
  EXPECT_EQ(written.back().settings, (SettingRows{{KeyOfArrival({{10}, {5009}}), std::nullopt}}));
}

// A store with little room.
class SmallStore final : public Store {
 public:
  SmallStore(base::Bytes room, std::vector<Batch>& written) : room_(room), written_(written) {}
  base::Result<StoreContents> Load(std::size_t) override { return StoreContents{}; }
  base::Result<> Write(const Batch& batch) override {
    written_.push_back(batch);
    return {};
  }
  base::Result<> SomeRuns(RunCursor&, base::WallTime, std::size_t,
                          const std::function<void(const RunAccount&)>&) override {
    return {};
  }
  std::optional<base::Bytes> RoomOnDisk() const override { return room_; }
  void SetFull(bool) override {}

 private:
  base::Bytes room_;
  std::vector<Batch>& written_;
};

TEST(StoreWorker, ManyJobsThatTheDiskHasNoRoomForAreNotBegun) {
  for (const bool has_room : {false, true}) {
    std::vector<Batch> written;
    base::Result<> outcome;
    {
      StoreWorker worker(std::make_unique<SmallStore>(has_room ? base::MiB(500) : base::MiB(4), written),
                         [](auto task) { task(); });
      Batch many;
      many.add = Many(10, 5000);
      worker.Submit(std::move(many), [&](const auto& stored) { outcome = stored; });
    }
    EXPECT_EQ(outcome.has_value(), has_room);
    EXPECT_EQ(written.empty(), !has_room);
    if (!has_room) {
      EXPECT_EQ(outcome.error().code, ErrorCode::kExhausted);
    }
  }
}

TEST_F(StoreTest, JobsThatWereOnlyPartlyWrittenWhenTheDaemonEndedAreNotThereAtTheNextStart) {
  auto store = Opened();
  Batch before;
  before.put = {Named(1, "kept")};
  ASSERT_TRUE(store->Write(before));
  Batch part;
  part.add = Many(10, 1000);
  part.add_to = 500;
  part.settings[KeyOfArrival({{10}, {1009}})] = "1";
  ASSERT_TRUE(store->Write(part));
  store.reset();
  store = Opened();
  const auto contents = store->Load(0);
  ASSERT_TRUE(contents);
  ASSERT_EQ(contents->jobs.size(), 1u);
  EXPECT_EQ(contents->jobs.front().tag, "kept");
  EXPECT_TRUE(contents->settings.empty());
  EXPECT_GE(contents->last_job_id, 509) << "their numbers are used up";
}

}  // namespace
}  // namespace gpuman::jobs
