// Writes the records of jobs, together with the accounts and messages that belong to a record.
//
// Rows that the disk refused are written with the job's next record, at the latest when the writer tries
// again, after a few seconds. Not thread-safe: lives on the event loop. The destructor drops the answers and
// what the disk refused; the next daemon finds the end of the run in the keeper's journal.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <vector>

#include "base/result.h"
#include "base/weak_self.h"
#include "jobs/accounting.h"
#include "jobs/job_index.h"
#include "jobs/job_keepers.h"
#include "jobs/job_manager_callbacks.h"
#include "jobs/outbox.h"
#include "jobs/store_worker.h"

namespace gpuman::jobs {

// Rows that are written together with a job's record.
struct RecordRows {
  std::vector<RunAccount> runs{};
  std::vector<OutboxRow> messages{};
};

class RecordWriter {
 public:
  using Stored = std::function<void(const base::Result<>&)>;

  // All must outlive this object. Tells a job's keeper which records of its journal are in the store.
  RecordWriter(boost::asio::io_context& loop, StoreWorker& store, const JobIndex& jobs, JobKeepers& keepers,
               const JobManagerCallbacks& callbacks)
      : store_(store), jobs_(jobs), keepers_(keepers), callbacks_(callbacks), retry_(loop) {}
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // Writes the job as it is now; of a job that is leaving, only the rows. The job must be in the index.
  // `stored`: on the disk, or refused; may be empty.
  void Write(JobId id, Stored stored, RecordRows rows = {});
  // The messages that the disk refused and that are not written yet. Drop gives the job's rows up.
  std::vector<OutboxRow> RefusedMessages(JobId id) const;
  std::vector<OutboxRow> Drop(JobId id);

 private:
  void OnWritten(JobId id, const RecordRows& rows, const base::Result<>& outcome);
  void RetryLater();

  StoreWorker& store_;
  const JobIndex& jobs_;
  JobKeepers& keepers_;
  const JobManagerCallbacks& callbacks_;
  std::map<JobId, RecordRows> refused_;
  boost::asio::steady_timer retry_;
  base::WeakSelf<RecordWriter> self_{this};
};

}  // namespace gpuman::jobs
