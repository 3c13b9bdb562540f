#include "jobs/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/magic.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "jobs/arrival.h"
#include "jobs/record.h"
#include "jobs/shared_text_table.h"
#include "jobs/sqlite_error.h"
#include "jobs/sqlite_wal_manager.h"
#include "jobs/store_jobs.h"
#include "jobs/store_schema.h"
#include "spec/json.h"

namespace gpuman::jobs {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr int kBusyTimeoutMs = 2000;
constexpr std::size_t kSweepAfter = 1000;  // erased jobs before shared rows without a job are deleted

// `db`: nullptr where it is not open.
template <typename Body>
auto Guarded(sqlite3* db, const std::filesystem::path& file, std::string_view doing, Body&& body)
    -> decltype(body()) {
  errno = 0;
  try {
    return body();
  } catch (const SQLite::Exception& error) {
    // SQLite keeps no errno of a commit that fails; the rollback after it may leave another one.
    int number = errno;
    if (number != EDQUOT && number != ENOSPC && db != nullptr) number = sqlite3_system_errno(db);
    return Fail(ErrorOfSqlite({error.getErrorCode(), number, error.what()}, file, doing));
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kInternal, fmt::format("{} {}: {}", doing, file.string(), error.what()));
  }
}

std::int64_t LastId(SQLite::Database& db, const char* table) {
  SQLite::Statement query(db, "SELECT seq FROM sqlite_sequence WHERE name=?");
  query.bind(1, table);
  return query.executeStep() ? query.getColumn(0).getInt64() : 0;
}

template <typename T>
void BindOptional(SQLite::Statement& statement, int index, const std::optional<T>& value) {
  if (value)
    statement.bind(index, *value);
  else
    statement.bind(index);
}

// On btrfs each write goes to a new place, also that into a mapped page of a file: where there is no room for
// it, the kernel kills the process.
bool NeedsRoomToWriteOver(const std::filesystem::path& file) {
  struct statfs disk {};
  return ::statfs(file.c_str(), &disk) == 0 && disk.f_type == BTRFS_SUPER_MAGIC;
}

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(std::filesystem::path file)
      : file_(std::move(file)),
        db_(file_.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyTimeoutMs) {}

  Result<> Prepare() {
    return Guarded(db_.getHandle(), file_, "opening", [&]() -> Result<> {
      if (sqlite3_db_readonly(db_.getHandle(), "main") == 1)
        return Fail(ErrorCode::kPermissionDenied, "the state database " + file_.string() + " is read-only",
                    "the state directory and its files must be writable for the user gpumand runs as");
      // Then SQLite maps no file: nobody else can open the database.
      if (NeedsRoomToWriteOver(file_)) db_.exec("PRAGMA locking_mode=EXCLUSIVE");
      GPUMAN_TRY(CheckIntegrity(db_, file_));
      db_.exec("PRAGMA journal_mode=WAL");
      db_.exec("PRAGMA synchronous=FULL");
      db_.exec("PRAGMA cache_size=-512");  // KiB; the daemon keeps what it needs itself
      GPUMAN_TRY(Migrate(db_, file_));
      log_.emplace(db_.getHandle(), file_);
      log_->Lengthen();
      shared_.emplace(db_);
      put_.emplace(db_,
                   "INSERT INTO jobs(id,tag,user,state,record,environment,limits,terms) "
                   "VALUES(?,?,?,?,?,?,?,?) ON CONFLICT(id) DO UPDATE SET tag=excluded.tag,"
                   "user=excluded.user,state=excluded.state,record=excluded.record,"
                   "environment=excluded.environment,limits=excluded.limits,terms=excluded.terms");
      run_.emplace(db_,
                   "INSERT INTO accounting(job,user,project,gpus,memory,started_ms,ended_ms,waited_ms,ran_ms,"
                   "gpu_seconds,gpu_byte_seconds,outcome,energy_j,name,peak,needed,utilization) "
                   "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
      trim_runs_.emplace(db_, "DELETE FROM accounting WHERE ended_ms<?");
      set_.emplace(db_, "INSERT OR REPLACE INTO setting(key,value) VALUES(?,?)");
      unset_.emplace(db_, "DELETE FROM setting WHERE key=?");
      erase_.emplace(db_, "DELETE FROM jobs WHERE id=?");
      event_.emplace(db_,
                     "INSERT INTO events(id,at_ms,kind,job,tag,gpu,message,data) VALUES(?,?,?,?,?,?,?,?)");
      trim_.emplace(db_, "DELETE FROM events WHERE id<?");
      message_.emplace(db_, "INSERT OR REPLACE INTO outbox(number,job,user,record) VALUES(?,?,?,?)");
      delivered_.emplace(db_, "DELETE FROM outbox WHERE number=?");
      return {};
    });
  }

  Result<StoreContents> Load(std::size_t event_limit) override {
    return Guarded(db_.getHandle(), file_, "reading", [&]() -> Result<StoreContents> {
      StoreContents contents;
      for (const JobIdRange& jobs : HalfArrivals()) TakeBack(jobs);
      GPUMAN_ASSIGN(contents.jobs, ReadJobs(db_, *shared_, file_));
      for (const JobIdRange& jobs : HalfArrivals())
        std::erase_if(contents.jobs, [&](const Job& job) { return jobs.Has(job.id); });
      SQLite::Statement events(db_,
                               "SELECT id,at_ms,kind,job,tag,gpu,message,data FROM (SELECT * FROM events "
                               "ORDER BY id DESC LIMIT ?) ORDER BY id");
      events.bind(1, static_cast<std::int64_t>(event_limit));
      while (events.executeStep()) contents.events.push_back(ReadEvent(events));
      contents.last_job_id = LastId(db_, "jobs");
      contents.last_event_id = LastId(db_, "events");
      SQLite::Statement settings(db_, "SELECT key,value FROM setting");
      while (settings.executeStep())
        contents.settings[settings.getColumn(0).getString()] = settings.getColumn(1).getString();
      SQLite::Statement outbox(db_, "SELECT number,job,user,record FROM outbox ORDER BY number");
      while (outbox.executeStep()) contents.outbox.push_back(ReadMessage(outbox));
      contents.last_outbox_number = LastId(db_, "outbox");
      return contents;
    });
  }

  Result<> Write(const Batch& batch) override {
    auto written = Guarded(db_.getHandle(), file_, "writing", [&]() -> Result<> {
      SQLite::Transaction transaction(db_);
      WriteRows(batch);
      transaction.commit();
      return {};
    });
    if (!written) {
      shared_->RolledBack();
      if (written.error().code == ErrorCode::kExhausted) log_->GiveRoomBack();
      return written;
    }
    shared_->Committed();
    erased_ += batch.erase.size();
    if (erased_ < kSweepAfter) return written;
    erased_ = 0;
    // Rows that are left over only take space, and the next sweep finds them.
    (void)Guarded(db_.getHandle(), file_, "tidying", [&]() -> Result<> {
      shared_->Sweep();
      return {};
    }).has_value();
    return written;
  }

  Result<> SomeRuns(RunCursor& from, base::WallTime until, std::size_t most,
                    const std::function<void(const RunAccount&)>& visit) override {
    return Guarded(db_.getHandle(), file_, "reading", [&]() -> Result<> {
      SQLite::Statement query(db_,
                              "SELECT job,user,project,gpus,memory,started_ms,ended_ms,waited_ms,ran_ms,"
                              "outcome,energy_j,id,name,peak,needed,utilization FROM accounting "
                              "WHERE (ended_ms,id)>(?,?) AND ended_ms<? ORDER BY ended_ms,id");
      query.bind(1, static_cast<std::int64_t>(from.ended.time_since_epoch().count()));
      query.bind(2, from.after);
      query.bind(3, static_cast<std::int64_t>(until.time_since_epoch().count()));
      for (std::size_t seen = 0; seen < most; ++seen) {
        from.done = !query.executeStep();
        if (from.done) break;
        const auto run = ReadRun(query);
        from.ended = run.ended;
        from.after = query.getColumn(11).getInt64();
        visit(run);
      }
      return {};
    });
  }

  std::optional<base::WallTime> EndBeforeLastRuns(std::size_t others) override {
    std::optional<base::WallTime> end;
    (void)Guarded(db_.getHandle(), file_, "reading", [&]() -> Result<> {
      SQLite::Statement query(
          db_, "SELECT ended_ms FROM accounting ORDER BY ended_ms DESC,id DESC LIMIT 1 OFFSET ?");
      query.bind(1, static_cast<std::int64_t>(others));
      if (query.executeStep()) end = base::WallTime(base::Millis(query.getColumn(0).getInt64()));
      return {};
    }).has_value();
    return end;
  }

  Result<std::vector<Event>> EventsOf(JobId job, std::size_t limit) override {
    return Events("job=?", limit, [&](SQLite::Statement& query) { query.bind(1, job.value); });
  }

  Result<std::vector<Event>> EventsOfGpu(const std::string& uuid, base::WallTime since, base::WallTime until,
                                         std::size_t limit) override {
    return Events("gpu=? AND job IS NULL AND at_ms BETWEEN ? AND ?", limit, [&](SQLite::Statement& query) {
      query.bind(1, uuid);
      query.bind(2, static_cast<std::int64_t>(since.time_since_epoch().count()));
      query.bind(3, static_cast<std::int64_t>(until.time_since_epoch().count()));
    });
  }

  std::optional<base::Bytes> RoomOnDisk() const override {
    std::error_code error;
    const auto space = std::filesystem::space(file_.parent_path(), error);
    if (error) return std::nullopt;
    return base::Bytes{space.available};
  }

  void SetFull(bool full) override {
    try {
      const int pages = full ? db_.execAndGet("PRAGMA page_count").getInt() : 0x3ffffffe;
      db_.exec(fmt::format("PRAGMA max_page_count={}", pages));
    } catch (const SQLite::Exception&) {
      // If this has no effect, the test that asked for it fails.
    }
  }

 private:
  template <typename Bind>
  static void Run(SQLite::Statement& statement, Bind&& bind) {
    // A statement that failed half-way keeps its transaction open until it is reset.
    struct Resetter {
      SQLite::Statement& statement;
      ~Resetter() { statement.tryReset(); }
    } const resetter{statement};
    bind(statement);
    statement.exec();
  }

  // The submissions that were never acknowledged, since the daemon ended while they were written.
  std::vector<JobIdRange> HalfArrivals() {
    std::vector<JobIdRange> half;
    SQLite::Statement marks(db_, "SELECT key FROM setting WHERE key GLOB ?");
    marks.bind(1, std::string(kArrivals) + "*");
    while (marks.executeStep())
      if (const auto jobs = ArrivalOfKey(marks.getColumn(0).getString())) half.push_back(*jobs);
    return half;
  }

  // If the disk has no room to delete anything, the setting row stays for the next start.
  void TakeBack(const JobIdRange& jobs) {
    for (ArrivalRemover removal(jobs, {jobs.last.value + 1}); !removal.IsOver();) {
      auto step = removal.Next();
      Batch batch;
      batch.erase = std::move(step.erase);
      if (step.unset) batch.settings[*step.unset] = std::nullopt;
      removal.Take(Write(batch));
    }
  }

  void WriteRows(const Batch& batch) {
    if (batch.add)
      for (std::size_t i = batch.add_from; i < std::min(batch.add_to, batch.add->size()); ++i)
        Put((*batch.add)[i]);
    for (const Job& job : batch.put) Put(job);
    for (const JobId id : batch.erase) Run(*erase_, [&](auto& s) { s.bind(1, id.value); });
    for (const Event& event : batch.events) Put(event);
    if (batch.first_event_kept) Run(*trim_, [&](auto& s) { s.bind(1, *batch.first_event_kept); });
    for (const RunAccount& run : batch.runs) Put(run);
    if (batch.first_run_kept)
      Run(*trim_runs_, [&](auto& s) {
        s.bind(1, static_cast<std::int64_t>(batch.first_run_kept->time_since_epoch().count()));
      });
    for (const OutboxRow& row : batch.outbox) Put(row);
    for (const std::int64_t number : batch.outbox_erase)
      Run(*delivered_, [&](auto& s) { s.bind(1, number); });
    for (const auto& setting : batch.settings) {
      if (!setting.second) {
        Run(*unset_, [&](auto& s) { s.bind(1, setting.first); });
        continue;
      }
      Run(*set_, [&](auto& s) {
        s.bind(1, setting.first);
        s.bind(2, *setting.second);
      });
    }
  }

  void Put(const Job& job) {
    // RowOf is called before the statement is bound, since it writes rows of its own.
    const auto environment =
        shared_->RowOf(job.environment.pointer(), [&] { return Serialize(job.environment); });
    const auto limits =
        shared_->RowOf(job.resource_limits.pointer(), [&] { return Serialize(*job.resource_limits); });
    const auto spec = shared_->RowOf(job.spec.pointer(), [&] { return spec::Serialize(*job.spec); });
    Run(*put_, [&](auto& s) {
      s.bind(1, job.id.value);
      s.bind(2, job.tag);
      s.bind(3, job.owner->user);
      s.bind(4, std::string(ToString(job.state)));
      s.bind(5, SerializeJob(job));
      s.bind(6, environment);
      s.bind(7, limits);
      s.bind(8, spec);
    });
  }

  void Put(const RunAccount& run) {
    const auto millis = [](base::WallTime at) {
      return static_cast<std::int64_t>(at.time_since_epoch().count());
    };
    Run(*run_, [&](auto& s) {
      s.bind(1, run.job.value);
      s.bind(2, run.user);
      s.bind(3, run.project);
      s.bind(4, fmt::format("{}", fmt::join(run.gpus, ",")));
      s.bind(5, static_cast<std::int64_t>(run.memory.count));
      s.bind(6, millis(run.started));
      s.bind(7, millis(run.ended));
      s.bind(8, static_cast<std::int64_t>(run.waited.count()));
      s.bind(9, static_cast<std::int64_t>(run.ran.count()));
      s.bind(10, run.GpuSeconds());
      s.bind(11, run.GpuByteSeconds());
      s.bind(12, run.outcome);
      BindOptional(s, 13, run.energy);
      s.bind(14, run.name);
      const auto count = [](const std::optional<base::Bytes>& bytes) {
        return bytes ? std::optional(static_cast<std::int64_t>(bytes->count)) : std::nullopt;
      };
      BindOptional(s, 15, count(run.peak));
      BindOptional(s, 16, count(run.needed));
      BindOptional(s, 17, run.utilization);
    });
  }

  static RunAccount ReadRun(SQLite::Statement& row) {
    const auto wall = [&](int column) {
      return base::WallTime(base::Millis(row.getColumn(column).getInt64()));
    };
    RunAccount run;
    run.job = {row.getColumn(0).getInt64()};
    run.user = row.getColumn(1).getString();
    run.project = row.getColumn(2).getString();
    std::istringstream gpus(row.getColumn(3).getString());
    for (std::string gpu; std::getline(gpus, gpu, ',');) run.gpus.push_back(gpu);
    run.memory = {static_cast<std::uint64_t>(row.getColumn(4).getInt64())};
    run.started = wall(5);
    run.ended = wall(6);
    run.waited = base::Millis(row.getColumn(7).getInt64());
    run.ran = base::Millis(row.getColumn(8).getInt64());
    run.outcome = row.getColumn(9).getString();
    if (!row.isColumnNull(10)) run.energy = row.getColumn(10).getDouble();
    run.name = row.getColumn(12).getString();
    const auto bytes = [&](int column) {
      return row.isColumnNull(column)
                 ? std::nullopt
                 : std::optional(base::Bytes{static_cast<std::uint64_t>(row.getColumn(column).getInt64())});
    };
    run.peak = bytes(13);
    run.needed = bytes(14);
    if (!row.isColumnNull(15)) run.utilization = row.getColumn(15).getDouble();
    return run;
  }

  void Put(const Event& event) {
    Run(*event_, [&](auto& s) {
      s.bind(1, event.id);
      s.bind(2, static_cast<std::int64_t>(event.at.time_since_epoch().count()));
      s.bind(3, event.kind);
      BindOptional(s, 4, event.job);
      BindOptional(s, 5, event.tag);
      BindOptional(s, 6, event.gpu);
      s.bind(7, event.message);
      s.bind(8, base::json::ToText(event.data, {}));
    });
  }

  void Put(const OutboxRow& row) {
    Run(*message_, [&](auto& s) {
      s.bind(1, row.number);
      BindOptional(s, 2, row.job);
      s.bind(3, row.user);
      s.bind(4, row.record);
    });
  }

  static OutboxRow ReadMessage(SQLite::Statement& row) {
    OutboxRow message;
    message.number = row.getColumn(0).getInt64();
    if (!row.isColumnNull(1)) message.job = row.getColumn(1).getInt64();
    message.user = row.getColumn(2).getString();
    message.record = row.getColumn(3).getString();
    return message;
  }

  // The newest `limit` events that meet the condition, by id.
  Result<std::vector<Event>> Events(const std::string& condition, std::size_t limit,
                                    const std::function<void(SQLite::Statement&)>& bind) {
    return Guarded(db_.getHandle(), file_, "reading", [&]() -> Result<std::vector<Event>> {
      SQLite::Statement query(
          db_,
          fmt::format("SELECT id,at_ms,kind,job,tag,gpu,message,data FROM (SELECT * FROM events WHERE {} "
                      "ORDER BY id DESC LIMIT {}) ORDER BY id",
                      condition, limit));
      bind(query);
      std::vector<Event> events;
      while (query.executeStep()) events.push_back(ReadEvent(query));
      return events;
    });
  }
  static Event ReadEvent(SQLite::Statement& row) {
    Event event;
    event.id = row.getColumn(0).getInt64();
    event.at = base::WallTime(base::Millis(row.getColumn(1).getInt64()));
    event.kind = row.getColumn(2).getString();
    if (!row.isColumnNull(3)) event.job = row.getColumn(3).getInt64();
    if (!row.isColumnNull(4)) event.tag = row.getColumn(4).getString();
    if (!row.isColumnNull(5)) event.gpu = row.getColumn(5).getString();
    event.message = row.getColumn(6).getString();
    auto data =
        base::json::FromText<decltype(event.data)>(row.getColumn(7).getString(), {}, "an event's data");
    if (data) event.data = std::move(*data);
    return event;
  }

  std::filesystem::path file_;
  SQLite::Database db_;
  std::optional<SqliteWalManager> log_;
  std::optional<SharedTextTable> shared_;
  std::optional<SQLite::Statement> put_, erase_, event_, trim_, run_, trim_runs_, set_, unset_, message_,
      delivered_;
  std::size_t erased_ = kSweepAfter;  // jobs since the last sweep; starts so that the first write sweeps
};

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const std::filesystem::path& file) {
  // SQLite gives its other files the mode of the database, so that is set first: they contain environments.
  auto made = base::OpenFile(file, O_RDWR | O_CREAT, 0600);
  if (!made)
    return Fail(base::Error{made.error().code, made.error().message,
                            "the state directory must be writable for the user gpumand runs as"}
                    .In("opening the state database"));
  made->Close();
  return Guarded(nullptr, file, "opening", [&]() -> Result<std::unique_ptr<Store>> {
    auto store = std::make_unique<SqliteStore>(file);
    GPUMAN_TRY(store->Prepare());
    return store;
  });
}

}  // namespace gpuman::jobs
