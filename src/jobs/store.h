// The daemon's data across restarts, in SQLite (write-ahead log, full sync): jobs, events, accounts of runs,
// and settings that were made while the daemon ran. docs/state.md has the tables.
//
// A Batch is written whole or not at all, and is on the disk when Write returns. A damaged database is never
// replaced or repaired without the administrator: Open refuses it and says what to do. Not thread-safe;
// blocks on the disk: StoreWorker owns the one object of a daemon.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "jobs/accounting.h"
#include "jobs/event.h"
#include "jobs/job.h"
#include "jobs/outbox.h"

namespace gpuman::jobs {

// The schema that this program writes; it migrates older ones and refuses newer ones.
inline constexpr int kStoreVersion = 7;

// Texts by name ("queue", "quota/user/ann"); only the part that owns a row knows its format.
using SettingRows = std::map<std::string, std::optional<std::string>>;

struct Batch {
  std::vector<Job> put;                         // inserted or replaced by id
  std::shared_ptr<const std::vector<Job>> add;  // the same for many jobs, which are not copied
  std::size_t add_from = 0, add_to = SIZE_MAX;  // the range of `add`
  std::vector<JobId> erase;                     // a missing one is no error
  std::vector<Event> events;
  std::optional<std::int64_t> first_event_kept;  // older ones are deleted
  std::vector<RunAccount> runs;
  std::optional<base::WallTime> first_run_kept;  // runs that ended before are deleted
  SettingRows settings;                          // nullopt: deleted
  std::vector<OutboxRow> outbox;                 // inserted or replaced by number
  std::vector<std::int64_t> outbox_erase;        // after `outbox`; a missing one is no error
};

struct StoreContents {
  std::vector<Job> jobs;      // by id
  std::vector<Event> events;  // by id, the newest `event_limit`
  std::int64_t last_job_id = 0;
  std::int64_t last_event_id = 0;
  std::vector<OutboxRow> outbox;  // by number
  std::int64_t last_outbox_number = 0;
  SettingRows settings;
};

class Store {
 public:
  // Makes the file (0600) if it is missing. kCorrupt: damaged, or not a database of gpuman. kNotSupported:
  // from a newer version. kPermissionDenied, kExhausted: as the file system reported.
  static base::Result<std::unique_ptr<Store>> Open(const std::filesystem::path& file);
  virtual ~Store() = default;

  // Takes back the jobs of arrivals that were not written completely (arrival.h), and leaves them out.
  virtual base::Result<StoreContents> Load(std::size_t event_limit) = 0;
  virtual base::Result<> Write(const Batch& batch) = 0;
  // Visits the runs that ended in [since, until), the oldest first.
  base::Result<> EachRun(base::WallTime since, base::WallTime until,
                         const std::function<void(const RunAccount&)>& visit) {
    RunCursor from{since};
    return SomeRuns(from, until, SIZE_MAX, visit);
  }
  // Visits at most `most` runs and moves `from` behind the last one. `from.done`: there are no more.
  struct RunCursor {
    base::WallTime ended{};
    std::int64_t after = 0;  // among runs that ended at that time
    bool done = false;
  };
  virtual base::Result<> SomeRuns(RunCursor& from, base::WallTime until, std::size_t most,
                                  const std::function<void(const RunAccount&)>& visit) = 0;

  // When the run ended after which so many others have ended; nullopt: there are not so many.
  virtual std::optional<base::WallTime> EndBeforeLastRuns(std::size_t /*others*/) { return std::nullopt; }

  // The events of the GPU that are no job's, and that happened in [since, until], by id; the newest `limit`.
  virtual base::Result<std::vector<Event>> EventsOfGpu(const std::string& /*uuid*/, base::WallTime /*since*/,
                                                       base::WallTime /*until*/, std::size_t /*limit*/) {
    return std::vector<Event>{};
  }
  // The newest `limit` events of the job, by id.
  virtual base::Result<std::vector<Event>> EventsOf(JobId /*job*/, std::size_t /*limit*/) {
    return std::vector<Event>{};
  }

  // The free space of the store's disk; nullopt: not known.
  virtual std::optional<base::Bytes> RoomOnDisk() const { return std::nullopt; }

  // Makes the database refuse to grow beyond its present size, like a full disk, until it is called with
  // false.
  virtual void SetFull(bool full) = 0;
};

}  // namespace gpuman::jobs
