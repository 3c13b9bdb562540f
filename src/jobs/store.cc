#include "jobs/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "jobs/record.h"

namespace gpuman::jobs {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

// "gpum": marks the file as ours (PRAGMA application_id).
constexpr int kApplicationId = 0x6770756d;
constexpr int kBusyTimeoutMs = 2000;

// Step n brings schema n to n + 1. Steps that were released are never changed.
constexpr std::array<const char*, kStoreVersion> kMigrations{
    R"(CREATE TABLE jobs(id INTEGER PRIMARY KEY AUTOINCREMENT, tag TEXT NOT NULL, user TEXT NOT NULL,
                         state TEXT NOT NULL, record TEXT NOT NULL);
       CREATE TABLE events(id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, kind TEXT NOT NULL,
                           job INTEGER, tag TEXT, gpu TEXT, message TEXT NOT NULL, data TEXT NOT NULL);
       CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;)",
};

// What to do when the file cannot be used as it is.
std::string WayOut(const std::filesystem::path& file) {
  return fmt::format(
      "stop gpumand, put back a copy of {0}, or move {0} with its -wal and -shm files elsewhere "
      "to begin without jobs and events; running jobs go on either way",
      file.string());
}

base::Error FromSqlite(const SQLite::Exception& error, const std::filesystem::path& file,
                       std::string_view doing) {
  const std::string what = fmt::format("{} {}: {}", doing, file.string(), error.what());
  switch (error.getErrorCode()) {
    case SQLITE_FULL:
      return {ErrorCode::kExhausted, what, "free space on the disk of the state directory"};
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      return {ErrorCode::kPermissionDenied, what,
              "the state directory and its files must be writable for the user gpumand runs as"};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {ErrorCode::kCorrupt, what, WayOut(file)};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kUnavailable, what, "another program holds the database locked"};
    default:
      return {ErrorCode::kInternal, what};
  }
}

template <typename Body>
auto Guarded(const std::filesystem::path& file, std::string_view doing, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& error) {
    return Fail(FromSqlite(error, file, doing));
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kInternal, fmt::format("{} {}: {}", doing, file.string(), error.what()));
  }
}

Result<> CheckIntegrity(SQLite::Database& db, const std::filesystem::path& file) {
  SQLite::Statement check(db, "PRAGMA quick_check(1)");
  if (check.executeStep() && check.getColumn(0).getString() != "ok")
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{} is damaged: {}", file.string(), check.getColumn(0).getString()),
                WayOut(file));
  return {};
}

Result<> Migrate(SQLite::Database& db, const std::filesystem::path& file) {
  const int version = db.execAndGet("PRAGMA user_version").getInt();
  const int application = db.execAndGet("PRAGMA application_id").getInt();
  const int tables = db.execAndGet("SELECT count(*) FROM sqlite_master").getInt();
  if (application != kApplicationId && tables > 0)
    return Fail(ErrorCode::kCorrupt, file.string() + " is a database of another program", WayOut(file));
  if (version > kStoreVersion)
    return Fail(ErrorCode::kNotSupported,
                fmt::format("{} was written by a newer gpuman (schema {}; this program knows up to {})",
                            file.string(), version, kStoreVersion),
                "install the newer version again; nothing was changed");
  if (version == kStoreVersion) return {};
  SQLite::Transaction transaction(db);
  db.exec(fmt::format("PRAGMA application_id={}", kApplicationId));
  for (int step = version; step < kStoreVersion; ++step)
    db.exec(kMigrations.at(static_cast<std::size_t>(step)));
  db.exec(fmt::format("PRAGMA user_version={}", kStoreVersion));
  transaction.commit();
  return {};
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

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(std::filesystem::path file)
      : file_(std::move(file)),
        db_(file_.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyTimeoutMs) {}

  Result<> Prepare() {
    return Guarded(file_, "opening", [&]() -> Result<> {
      if (sqlite3_db_readonly(db_.getHandle(), "main") == 1)
        return Fail(ErrorCode::kPermissionDenied, "the state database " + file_.string() + " is read-only",
                    "the state directory and its files must be writable for the user gpumand runs as");
      GPUMAN_TRY(CheckIntegrity(db_, file_));
      db_.exec("PRAGMA journal_mode=WAL");
      db_.exec("PRAGMA synchronous=FULL");
      db_.exec("PRAGMA cache_size=-512");  // KiB; the daemon itself keeps what it needs
      GPUMAN_TRY(Migrate(db_, file_));
      put_.emplace(db_,
                   "INSERT INTO jobs(id,tag,user,state,record) VALUES(?,?,?,?,?) ON CONFLICT(id) DO UPDATE "
                   "SET tag=excluded.tag,user=excluded.user,state=excluded.state,record=excluded.record");
      erase_.emplace(db_, "DELETE FROM jobs WHERE id=?");
      event_.emplace(db_,
                     "INSERT INTO events(id,at_ms,kind,job,tag,gpu,message,data) VALUES(?,?,?,?,?,?,?,?)");
      trim_.emplace(db_, "DELETE FROM events WHERE id<?");
      return {};
    });
  }

  Result<StoreContents> Load(std::size_t event_limit) override {
    return Guarded(file_, "reading", [&]() -> Result<StoreContents> {
      StoreContents contents;
      SQLite::Statement jobs(db_, "SELECT id,record FROM jobs ORDER BY id");
      while (jobs.executeStep()) {
        auto job = ParseJob(jobs.getColumn(1).getString());
        if (!job)
          return Fail(ErrorCode::kCorrupt,
                      fmt::format("job {} in {} cannot be read: {}", jobs.getColumn(0).getInt64(),
                                  file_.string(), job.error().message),
                      WayOut(file_));
        contents.jobs.push_back(std::move(*job));
      }
      SQLite::Statement events(db_,
                               "SELECT id,at_ms,kind,job,tag,gpu,message,data FROM (SELECT * FROM events "
                               "ORDER BY id DESC LIMIT ?) ORDER BY id");
      events.bind(1, static_cast<std::int64_t>(event_limit));
      while (events.executeStep()) contents.events.push_back(ReadEvent(events));
      contents.last_job_id = LastId(db_, "jobs");
      contents.last_event_id = LastId(db_, "events");
      return contents;
    });
  }

  Result<> Write(const Batch& batch) override {
    return Guarded(file_, "writing", [&]() -> Result<> {
      SQLite::Transaction transaction(db_);
      for (const Job& job : batch.put) Put(job);
      for (const JobId id : batch.erase) Run(*erase_, [&](auto& s) { s.bind(1, id.value); });
      for (const Event& event : batch.events) Put(event);
      if (batch.first_event_kept) Run(*trim_, [&](auto& s) { s.bind(1, *batch.first_event_kept); });
      transaction.commit();
      return {};
    });
  }

  void SetFull(bool full) override {
    try {
      const int pages = full ? db_.execAndGet("PRAGMA page_count").getInt() : 0x3ffffffe;
      db_.exec(fmt::format("PRAGMA max_page_count={}", pages));
    } catch (const SQLite::Exception&) {
      // Without effect the test that asked for it fails.
    }
  }

 private:
  template <typename Bind>
  static void Run(SQLite::Statement& statement, Bind&& bind) {
    // A statement that failed half-way holds its transaction open until it is reset.
    struct Resetter {
      SQLite::Statement& statement;
      ~Resetter() { statement.tryReset(); }
    } const resetter{statement};
    bind(statement);
    statement.exec();
  }

  void Put(const Job& job) {
    Run(*put_, [&](auto& s) {
      s.bind(1, job.id.value);
      s.bind(2, job.tag);
      s.bind(3, job.owner.user);
      s.bind(4, std::string(ToString(job.state)));
      s.bind(5, SerializeJob(job));
    });
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
      s.bind(8, nlohmann::json(event.data).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
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
    const auto data = nlohmann::json::parse(row.getColumn(7).getString(), nullptr, false);
    if (data.is_object())
      for (const auto& [name, value] : data.items())
        if (value.is_number_integer()) event.data[name] = value.get<std::int64_t>();
    return event;
  }

  std::filesystem::path file_;
  SQLite::Database db_;
  std::optional<SQLite::Statement> put_, erase_, event_, trim_;
};

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const std::filesystem::path& file) {
  // SQLite gives its own files the mode of the database, so that is set first: environments are in there.
  auto made = base::OpenFile(file, O_RDWR | O_CREAT, 0600);
  if (!made)
    return Fail(base::Error{made.error().code, made.error().message,
                            "the state directory must be writable for the user gpumand runs as"}
                    .In("opening the state database"));
  made->Close();
  return Guarded(file, "opening", [&]() -> Result<std::unique_ptr<Store>> {
    auto store = std::make_unique<SqliteStore>(file);
    GPUMAN_TRY(store->Prepare());
    return store;
  });
}

}  // namespace gpuman::jobs
