// The shims of the jobs' processes, as the daemon sees them: the socket to which they connect, the ledgers in
// which they count, and the uncounted memory that the driver shows.
//
//   job runs ------------> SetJob: a ledger with its limits (made, or found again after a restart)
//   process asks --------> whose is it? (attribution) -> its place in the ledger
//   sample of a GPU -----> OnSample: writes `outside`, learns what a context costs, reports
//                            ledgers that a program has overwritten
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "daemon/core/signal.h"
#include "gpu/process_attributor.h"
#include "guard/guard.h"
#include "jobs/job.h"
#include "keeper/process_tree.h"
#include "ledger/ledgers.h"
#include "ledger/server.h"
#include "ledger/uncounted_memory_estimator.h"

namespace gpuman::daemon {

class ShimChannel {
 public:
  // Listens at `socket`, and replaces a socket that is already there: this daemon has claimed the state
  // directory, so no other daemon uses that socket. `other_version` is called once for each job.
  static base::Result<std::unique_ptr<ShimChannel>> Open(boost::asio::io_context& loop,
                                                         const std::filesystem::path& socket, mode_t mode,
                                                         const base::ProcessTable& table,
                                                         ledger::Attribute attribute,
                                                         ledger::OtherVersion other_version);

  ~ShimChannel();
  ShimChannel(const ShimChannel&) = delete;
  ShimChannel& operator=(const ShimChannel&) = delete;

  // Makes or updates the ledger of a job whose processes have the shim. `tree`: where the processes are
  // found. `limits`: one for each of the job's GPUs; empty while GPUs are not known: then the earlier limits
  // hold, also those from an earlier daemon. Call again when limits change. After an error such as kExhausted
  // the processes go on without a ledger, and the guard without the ledger's figures. The first call decides
  // whether eviction is possible. `saved`: gives the bytes of the ledger as they were when the job's run
  // ended; asked where an earlier daemon may have made one that no process has any more.
  using SavedLedger = std::function<base::Result<std::string>()>;
  base::Result<> SetJob(base::JobId job, const keeper::ProcessTree& tree,
                        std::vector<ledger::GpuLimit> limits, const ledger::EvictionSettings& eviction,
                        const SavedLedger& saved = {});
  // The job's ledger, opened anew, for its keeper to hold; kNotFound: it has none.
  base::Result<base::Fd> LedgerOf(base::JobId job) const { return ledgers_.FileOf(job); }
  // RemoveJob: the job has ended. ReleaseJob: the job goes on without limits.
  void RemoveJob(base::JobId job);
  void ReleaseJob(base::JobId job);

  // The job has moved to this GPU as a whole (Ledgers::FollowMove).
  void FollowMove(base::JobId job, const std::string& uuid);

  // Asks attribution again about processes for which an earlier answer was kLater.
  void AskAgain() { server_->AskAgain(); }
  // Sets the function that gets each process that obeys an order, with its connection.
  void SetTransferListener(ledger::TransferListener listener) {
    server_->SetTransferListener(std::move(listener));
  }

  struct Findings {
    // By job: the memory that its processes count on this GPU; a value only where all of its processes there
    // count.
    std::map<base::JobId, std::optional<base::Bytes>> counted;
    std::optional<base::Bytes> context;  // the cost of one context on this GPU; set when it was just learned
    std::vector<base::JobId> overwritten;  // jobs whose ledger does not hold what the daemon wrote; told once
  };
  // Call with new figures of one GPU. The findings are empty where the figures have not changed for a while.
  Findings OnSample(const guard::GpuStatus& status);
  // The jobs that flood their ledger's file with locks (ledger/lock_flood.h), each once in a run. Call every
  // LockFloodDetector::kInterval.
  std::vector<base::JobId> LockFloods();
  // The job was not ended: LockFloods has it again when its flood lasts.
  void LookForLockFloodAnew(base::JobId job);
  // Call after OnSample: the uncounted memory in the ledgers has these figures now.
  void SetSampled(const gpu::GpuSample& sample);

  // The newest refused allocation of the job's programs in the present run; nullopt: none.
  std::optional<ledger::FirstAndLastRefusal> RefusalOf(base::JobId job) const;
  // How many allocations were refused to the job's programs in the present run, by GPU; a GPU of whose
  // refusals the first is not known counts its last one alone.
  std::map<std::string, std::uint64_t> RefusalCountsOf(base::JobId job) const;
  // The jobs with a new refusal since the last call of this function.
  std::vector<base::JobId> RefusedAnew();
  // The most that the job has used of one GPU at a time: what its processes have counted, and the most
  // uncounted memory beside it. nullopt: it is not known, since not all of its processes count, or none did
  // yet.
  std::optional<jobs::MemoryPeak> LargestPeakOf(base::JobId job) const;
  // The peak of the job on each GPU that it used, where LargestPeakOf is known; then the peaks of its
  // processes, the largest first.
  std::vector<jobs::MemoryPeak> PeaksOf(base::JobId job) const;
  // A new run of the job began at that time. Earlier refusals belong to another run.
  void SetRun(base::JobId job, base::MonoTime began);

  // Whether the process counts in the job's ledger. False: its shim has never connected.
  bool Counts(base::JobId job, base::ProcessId process) const { return ledgers_.Registered(job, process); }
  bool Has(base::JobId job) const { return ledgers_.Has(job); }
  // Whether it is known which GPUs the job's ledger names: not before SetJob had limits. Until then memory of
  // a process on several GPUs cannot be told apart.
  bool KnowsGpusOf(base::JobId job) const {
    const auto known = jobs_.find(job);
    return known != jobs_.end() && !known->second.limits.empty();
  }
  // These do as the same functions of Ledgers. Call SetSharing and SetRoom again after a ledger was found
  // again.
  base::Result<> Order(base::JobId job, base::ProcessId process, const ledger::ProcessOrder& command) {
    return ledgers_.Order(job, process, command);
  }
  base::Result<unsigned> OrderAll(base::JobId job, const ledger::ProcessOrder& command) {
    return ledgers_.OrderAll(job, command);
  }
  base::Result<unsigned> GrantCalls(base::JobId job, base::ProcessId process,
                                    const ledger::CallGrant& grant) {
    return ledgers_.GrantCalls(job, process, grant);
  }
  std::vector<std::string> GpusOf(base::JobId job) const { return ledgers_.GpusOf(job); }
  void SetSharing(base::JobId job, const ledger::SharingSettings& sharing) {
    ledgers_.SetSharing(job, sharing);
  }
  void SetSuspends(base::JobId job, bool suspends) { ledgers_.SetSuspends(job, suspends); }
  void SetIdleWatch(base::JobId job, base::Millis watched) { ledgers_.SetIdleWatch(job, watched); }
  void SetRoom(base::JobId job, const std::string& uuid, std::optional<base::Bytes> bytes) {
    ledgers_.SetRoom(job, uuid, bytes);
  }
  void OfferRoom(base::JobId job) { ledgers_.OfferRoom(job); }
  void ShowLife(base::JobId job) { ledgers_.ShowLife(job); }
  std::vector<ledger::GpuUsage> UsageOf(base::JobId job) const { return ledgers_.UsageOf(job); }
  // The uncounted memory that was last written to the job's ledger.
  base::Bytes UncountedOf(base::JobId job, const std::string& uuid) const;
  // Managed memory of all jobs on the GPU, as their processes count it. The GPU holds at most this much of
  // it.
  base::Bytes ManagedOn(const std::string& uuid) const;
  // A process of a watched job, or a process that waits for room, has sent a notification. Read the slots
  // later, in a separate round of the loop, since many processes may notify at once.
  Signal<base::JobId> on_notify;
  std::vector<ledger::SlotStatus> SlotStatusesOf(base::JobId job) const {
    return ledgers_.SlotStatusesOf(job);
  }
  // Host memory that the job's shims hold for memory that they evict or have evicted.
  base::Bytes HostMemoryOf(base::JobId job) const { return ledgers_.HostMemoryOf(job); }
  // Sets the cost of one context as an earlier daemon saw it. A cost that this daemon sees replaces it.
  void ExpectContext(const std::string& uuid, base::Bytes bytes);
  // The cost of one context on the GPU; nullopt: not known yet.
  std::optional<base::Bytes> ContextOn(const std::string& uuid) const;

 private:
  ShimChannel(boost::asio::io_context& loop, std::filesystem::path socket, const base::ProcessTable& table)
      : socket_(std::move(socket)), table_(table), ready_(loop) {}
  void Wait();
  base::Result<> Begin(base::JobId job, const keeper::ProcessTree& tree,
                       const std::vector<ledger::GpuLimit>& limits, const ledger::EvictionSettings& eviction,
                       const SavedLedger& saved);
  void SetContext(const std::string& uuid, base::Bytes bytes);
  std::vector<ledger::GpuLimit> WithContexts(std::vector<ledger::GpuLimit> limits) const;

  // The job's uncounted memory on one GPU.
  struct UncountedOnGpu {
    ledger::UncountedMemoryEstimator outside;
    std::optional<base::Bytes> written;  // the value in the ledger; nullopt: a value from an earlier daemon
    std::map<base::ProcessId, unsigned>
        uncounted{};  // processes that do not count; in how many samples in a row
  };
  struct Job {
    std::vector<ledger::GpuLimit> limits;  // without contexts
    std::map<std::string, UncountedOnGpu>
        uncounted_by_gpu;  // where the job is, was at the last look, or may have been
    base::MonoTime run_began{};
    std::map<std::string, std::uint64_t>
        refusals_reported;  // by GPU: number of the last refusal that was reported
    std::map<std::string, base::Bytes> uncounted_peak;  // by GPU: the most uncounted memory that lasted
    bool all_count = true;  // false: a process that does not count was seen three times in a row
    bool overwritten = false;
    ledger::LockFloodDetector lock_flood;
    bool flood_reported = false;
    bool version_reported = false;
  };

  // Empty where LargestPeakOf is not known.
  std::vector<jobs::MemoryPeak> PeaksOnGpusOf(base::JobId job) const;

  static bool LastsUncounted(UncountedOnGpu& on, const std::vector<ledger::ProcessSample>& samples);

  // The last figures of a GPU, and how often in a row they were the same.
  struct LastGpuFigures {
    std::vector<gpu::AttributedProcess> processes;
    unsigned rounds = 0;
  };

  const std::filesystem::path socket_;
  const base::ProcessTable& table_;
  const base::ProcessId self_ = base::SelfId();
  ledger::Ledgers ledgers_;
  std::optional<ledger::Server> server_;
  boost::asio::posix::stream_descriptor ready_;  // a duplicate of the server's
  std::map<base::JobId, Job> jobs_;
  std::map<std::string, base::Bytes> contexts_;  // by GPU
  std::set<std::string> learned_;                // GPUs on which this daemon has seen a context's cost
  std::map<std::string, LastGpuFigures> seen_;   // by GPU
  // Callbacks that outlive this object find nullptr.
  std::shared_ptr<ShimChannel*> self_handle_ = std::make_shared<ShimChannel*>(this);
};

}  // namespace gpuman::daemon
