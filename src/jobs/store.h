// The daemon's memory across restarts: jobs and events in SQLite (write-ahead log, full sync).
//
// A Batch is written whole or not at all, and is on the disk when Write returns. A database that cannot be
// trusted is never replaced or repaired behind the administrator's back: Open refuses and says what to do.
// Not thread-safe; blocks on the disk: StoreWorker owns the one object of a daemon.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "jobs/event.h"
#include "jobs/job.h"

namespace gpuman::jobs {

// Schema this program writes; older ones are brought up to it, newer ones refused.
inline constexpr int kStoreVersion = 1;

struct Batch {
  std::vector<Job> put;      // inserted or replaced by id
  std::vector<JobId> erase;  // one that is not there is no error
  std::vector<Event> events;
  std::optional<std::int64_t> first_event_kept;  // older ones are deleted

  bool Empty() const { return put.empty() && erase.empty() && events.empty() && !first_event_kept; }
};

struct StoreContents {
  std::vector<Job> jobs;      // by id
  std::vector<Event> events;  // by id, the newest `event_limit`
  std::int64_t last_job_id = 0;
  std::int64_t last_event_id = 0;
};

class Store {
 public:
  // Makes the file (0600) when it is missing. kCorrupt: damaged, or no database of gpuman. kNotSupported:
  // from a newer version. kPermissionDenied, kExhausted: as the file system said.
  static base::Result<std::unique_ptr<Store>> Open(const std::filesystem::path& file);
  virtual ~Store() = default;

  virtual base::Result<StoreContents> Load(std::size_t event_limit) = 0;
  virtual base::Result<> Write(const Batch& batch) = 0;

  // Makes the database refuse to grow beyond its present size, as on a full disk, until lifted.
  virtual void SetFull(bool full) = 0;
};

}  // namespace gpuman::jobs
