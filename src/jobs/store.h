// The daemon's memory across restarts, in SQLite (write-ahead log, full sync): jobs, events, what runs took,
// and settings that were made while it ran. docs/state.md has the tables.
//
// A Batch is written whole or not at all, and is on the disk when Write returns. A database that cannot be
// trusted is never replaced or repaired behind the administrator's back: Open refuses and says what to do.
// Not thread-safe; blocks on the disk: StoreWorker owns the one object of a daemon.
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

// Schema this program writes; older ones are brought up to it, newer ones refused.
inline constexpr int kStoreVersion = 3;

// Texts by name ("queue", "quota/user/ann"); what is in them is their owner's business.
using SettingRows = std::map<std::string, std::optional<std::string>>;

struct Batch {
  std::vector<Job> put;                         // inserted or replaced by id
  std::shared_ptr<const std::vector<Job>> add;  // the same; many, which need not be copied
  std::size_t add_from = 0, add_to = SIZE_MAX;  // of those, the ones from here to there
  std::vector<JobId> erase;                     // one that is not there is no error
  std::vector<Event> events;
  std::optional<std::int64_t> first_event_kept;  // older ones are deleted
  std::vector<RunAccount> runs;
  std::optional<base::WallTime> first_run_kept;  // those that ended before are deleted
  SettingRows settings;                          // nullopt: deleted
  std::vector<OutboxRow> outbox;                 // inserted or replaced by number
  std::vector<std::int64_t> outbox_erase;        // after that; one that is not there is no error
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
  // Makes the file (0600) when it is missing. kCorrupt: damaged, or no database of gpuman. kNotSupported:
  // from a newer version. kPermissionDenied, kExhausted: as the file system said.
  static base::Result<std::unique_ptr<Store>> Open(const std::filesystem::path& file);
  virtual ~Store() = default;

  // Takes back what is there of many jobs that were not all written (arrival.h), and leaves it out.
  virtual base::Result<StoreContents> Load(std::size_t event_limit) = 0;
  virtual base::Result<> Write(const Batch& batch) = 0;
  // Runs that ended in [since, until), oldest first.
  base::Result<> EachRun(base::WallTime since, base::WallTime until,
                         const std::function<void(const RunAccount&)>& visit) {
    RunCursor from{since};
    return SomeRuns(from, until, SIZE_MAX, visit);
  }
  // At most so many of them; `from` is behind the last one then. `from.done`: there are no more.
  struct RunCursor {
    base::WallTime ended{};
    std::int64_t after = 0;  // among those that ended at that time
    bool done = false;
  };
  virtual base::Result<> SomeRuns(RunCursor& from, base::WallTime until, std::size_t most,
                                  const std::function<void(const RunAccount&)>& visit) = 0;

  // What is free on its disk; nullopt: it cannot be said.
  virtual std::optional<base::Bytes> RoomOnDisk() const { return std::nullopt; }

  // Makes the database refuse to grow beyond its present size, as on a full disk, until lifted.
  virtual void SetFull(bool full) = 0;
};

}  // namespace gpuman::jobs
