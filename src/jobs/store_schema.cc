#include "jobs/store_schema.h"

#include <fmt/format.h>

#include <array>

#include "jobs/store.h"

namespace gpuman::jobs {

using base::ErrorCode;
using base::Fail;
using base::Result;

namespace {

// "gpum": marks the file as ours (PRAGMA application_id).
constexpr int kApplicationId = 0x6770756d;

// Step n migrates schema n to n + 1. Released steps are never changed.
constexpr std::array<const char*, kStoreVersion> kMigrations{
    R"(CREATE TABLE jobs(id INTEGER PRIMARY KEY AUTOINCREMENT, tag TEXT NOT NULL, user TEXT NOT NULL,
                         state TEXT NOT NULL, record TEXT NOT NULL);
       CREATE TABLE events(id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, kind TEXT NOT NULL,
                           job INTEGER, tag TEXT, gpu TEXT, message TEXT NOT NULL, data TEXT NOT NULL);
       CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;)",
    // Environment, limits and queue spec are rows of `shared`; for jobs from schema 1 they are in the record.
    R"(ALTER TABLE jobs ADD COLUMN environment INTEGER;
       ALTER TABLE jobs ADD COLUMN limits INTEGER;
       ALTER TABLE jobs ADD COLUMN terms INTEGER;
       CREATE TABLE shared(id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL);
       CREATE TABLE accounting(id INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL, user TEXT NOT NULL,
                               project TEXT NOT NULL, gpus TEXT NOT NULL, memory INTEGER NOT NULL,
                               started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL,
                               waited_ms INTEGER NOT NULL, ran_ms INTEGER NOT NULL,
                               gpu_seconds REAL NOT NULL, gpu_byte_seconds REAL NOT NULL,
                               outcome TEXT NOT NULL, energy_j REAL);
       CREATE INDEX accounting_by_end ON accounting(ended_ms);
       CREATE TABLE setting(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;)",
    // Messages that are not delivered yet.
    R"(CREATE TABLE outbox(number INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER, user TEXT NOT NULL,
                           record TEXT NOT NULL);)",
    // Accounts of runs name the job, and have its peak of memory; of earlier runs neither is known.
    R"(ALTER TABLE accounting ADD COLUMN name TEXT NOT NULL DEFAULT '';
       ALTER TABLE accounting ADD COLUMN peak INTEGER;)",
    // The story of a job is made of its events, and of those of its GPUs.
    R"(CREATE INDEX events_by_job ON events(job) WHERE job IS NOT NULL;
       CREATE INDEX events_by_gpu ON events(gpu) WHERE gpu IS NOT NULL AND job IS NULL;)",
    // The memory that a run needed at least, where its limit refused memory.
    R"(ALTER TABLE accounting ADD COLUMN needed INTEGER;)",
    // How busy the GPUs of a run were; of earlier runs it is not known.
    R"(ALTER TABLE accounting ADD COLUMN utilization REAL;)",
};

}  // namespace

std::string WayOut(const std::filesystem::path& file) {
  return fmt::format(
      "stop gpumand, put back a copy of {0}, or move {0} with its -wal and -shm files elsewhere "
      "to begin without jobs and events; running jobs go on either way",
      file.string());
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

}  // namespace gpuman::jobs
