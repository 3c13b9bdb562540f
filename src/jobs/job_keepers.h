// The keepers of the jobs that have one: starts them, follows their journals, and gives them orders.
//
// A job has a keeper from Prepare until Leave, Stop or Discard. Orders about how a job is to run (that it
// stops, its settings) are remembered, so that none is given twice; after a lost connection the job manager
// gives those again that the journal does not have. Not thread-safe: lives on the event loop, where all
// callbacks run. After the destruction keepers go on, and no callback is called.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/fair_task_executor.h"
#include "base/result.h"
#include "base/weak_self.h"
#include "jobs/job_index.h"
#include "jobs/job_manager_options.h"
#include "jobs/keeper_link.h"
#include "jobs/launch_plan.h"

namespace gpuman::jobs {

class JobKeepers {
 public:
  // As KeeperLink::Callbacks, for a job that is there in the incarnation of the keeper.
  struct Callbacks {
    std::function<void(JobId, const keeper::JournalRecord&)> on_record;
    std::function<void(JobId)> on_connected;
    std::function<void(JobId, const base::Error&)> on_failed;
    std::function<void(JobId, const std::string&)> on_error;
  };
  // The answer to an order, while the job still has the keeper that got it.
  using Answered = std::function<void(const Job& job, const base::Result<>& outcome)>;

  // All must outlive this object. `workers`: start keepers, in turns between users.
  JobKeepers(boost::asio::io_context& loop, base::FairTaskExecutor& workers, const JobIndex& jobs,
             const JobManagerOptions& options, Callbacks callbacks);
  ~JobKeepers();
  JobKeepers(const JobKeepers&) = delete;
  JobKeepers& operator=(const JobKeepers&) = delete;

  // --- A keeper comes and goes ---
  // Makes the directory of the job's incarnation, unless it exists. Start waits for that.
  void Prepare(const Job& job, const LaunchSettings& settings);
  // Starts the keeper, or finds the one that lives. Does nothing after on_failed.
  void Start(JobId id);
  // After on_failed: tries the same again, after a delay that grows.
  void TryAgain(JobId id);
  // Undoes Prepare, instead of Start. False: there is nothing to undo, as preparing failed.
  bool Discard(JobId id);
  // The job's run is over for good; its keeper ends. The caller may be a callback of this keeper.
  void Leave(JobId id);
  // The job is gone, and its keeper may go on.
  void Stop(JobId id);

  bool IsConnected(JobId id) const;
  // Whether the journal has the order to stop.
  bool IsStopInJournal(JobId id) const;
  // Call the result when the store has `job` as it is now: the keeper may drop the records that it has in it.
  std::function<void()> OnceStored(const Job& job) const;

  // As KeeperLink::Hold.
  void Hold(JobId id, const base::Fd& file);

  // --- Orders ---
  // kUnavailable: there is no keeper or no connection, and `answered` is not called.
  base::Result<> Order(JobId id, keeper::Command command, Answered answered);
  // Stops the job for good. on_error: the keeper refuses.
  void OrderStop(const Job& job);
  // The settings that may change while the job runs, unless the keeper has them. SyncSettings: over a new
  // connection, of which nothing was heard yet.
  void SendSettings(const Job& job);
  void SyncSettings(const Job& job);
  // A new run. `answer` as KeeperLink::Send.
  base::Result<> OrderRestart(const Job& job, const keeper::EndReason& reason, KeeperLink::Answer answer);
  // The job is not started again when its run ends. `answer` as KeeperLink::Send.
  base::Result<> OrderNoRestart(const Job& job, KeeperLink::Answer answer);

 private:
  struct Keeper {
    std::shared_ptr<KeeperLink> link;  // shared with its pending operations
    bool stop_in_journal = false;
    std::optional<std::string> settings_in_journal;
    std::optional<std::string> settings_sent;  // over this connection; soon in the journal
  };

  Keeper* Find(JobId id);
  const Keeper* Find(JobId id) const;
  std::shared_ptr<KeeperLink> MakeLink(const Job& job);
  void OnRecord(JobId id, const keeper::JournalRecord& record);

  boost::asio::io_context& loop_;
  base::FairTaskExecutor& workers_;
  const JobIndex& jobs_;
  const JobManagerOptions& options_;
  const Callbacks callbacks_;
  std::map<JobId, Keeper> keepers_;
  base::WeakSelf<JobKeepers> self_{this};
};

}  // namespace gpuman::jobs
