// The shims of the jobs' processes, as the daemon sees them: the socket they come to, the ledgers they count
// in, and what the driver shows beyond those.
//
//   job runs ------------> SetJob: a ledger with its limits (made, or found again after a restart)
//   process asks --------> whose is it? (attribution) -> its place in the ledger
//   sample of a GPU -----> OnSample: writes `outside`, learns what a context costs, tells what is odd
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
#include "gpu/attribution.h"
#include "guard/guard.h"
#include "keeper/process_tree.h"
#include "ledger/ledgers.h"
#include "ledger/server.h"
#include "ledger/uncounted_memory.h"

namespace gpuman::daemon {

class ShimChannel {
 public:
  // Listens at `socket`, replacing one that is there (the state directory is claimed: it is nobody else's).
  // `other_version` is called once a job.
  static base::Result<std::unique_ptr<ShimChannel>> Open(boost::asio::io_context& loop,
                                                         const std::filesystem::path& socket, mode_t mode,
                                                         const base::ProcessTable& table,
                                                         ledger::Attribute attribute,
                                                         ledger::OtherVersion other_version);

  ~ShimChannel();
  ShimChannel(const ShimChannel&) = delete;
  ShimChannel& operator=(const ShimChannel&) = delete;

  // A job whose processes have the shim, and where they are found; `limits`: one for each of its GPUs, none
  // while GPUs are not known: what was said before holds, by an earlier daemon as well. Called again when
  // limits change. kExhausted and the like: its processes go on without, and the guard with them. Whether
  // eviction is possible holds from the first call on.
  base::Result<> SetJob(base::JobId job, const keeper::ProcessTree& tree,
                        std::vector<ledger::GpuLimit> limits, const ledger::Eviction& eviction);
  // It has ended; or it goes on without limits.
  void RemoveJob(base::JobId job);
  void ReleaseJob(base::JobId job);

  // Asks again about those for whom it was too early to say whose they are.
  void AskAgain() { server_->AskAgain(); }
  // Where processes that obey an order are sent with their connection.
  void SetTransfer(ledger::Transfer transfer) { server_->SetTransfer(std::move(transfer)); }

  struct Findings {
    // By job: what its processes count on this GPU, where all that are on it count.
    std::map<base::JobId, std::optional<base::Bytes>> counted;
    std::optional<base::Bytes> context;    // what one costs on this GPU; when that was learned
    std::vector<base::JobId> overwritten;  // its ledger says something else than was written; told once
  };
  // The figures of one GPU are new. Nothing is found where nothing has changed for a while.
  Findings OnSample(const guard::GpuStatus& status);

  // The newest allocation that the job's programs were refused in its run; nullopt: none.
  std::optional<ledger::Refusal> RefusalOf(base::JobId job) const;
  // The jobs of which RefusalOf says something else than when this was asked last.
  std::vector<base::JobId> RefusedAnew();
  // A new run of the job began then: what was refused before is of another one.
  void SetRun(base::JobId job, base::MonoTime began);

  // False: a process of a job with a ledger that never came.
  bool Counts(base::JobId job, base::ProcessId process) const { return ledgers_.Registered(job, process); }
  bool Has(base::JobId job) const { return ledgers_.Has(job); }
  // Off the GPU, or back; as Ledgers::Order.
  base::Result<> Order(base::JobId job, base::ProcessId process, bool out) {
    return ledgers_.Order(job, process, out);
  }
  // As Ledgers does; SetSharing and SetRoom again after a job's ledger was found again.
  base::Result<> Order(base::JobId job, base::ProcessId process, const ledger::Command& command) {
    return ledgers_.Order(job, process, command);
  }
  base::Result<unsigned> OrderAll(base::JobId job, const ledger::Command& command) {
    return ledgers_.OrderAll(job, command);
  }
  void SetSharing(base::JobId job, const ledger::Sharing& sharing) { ledgers_.SetSharing(job, sharing); }
  void SetRoom(base::JobId job, const std::string& uuid, std::optional<base::Bytes> bytes) {
    ledgers_.SetRoom(job, uuid, bytes);
  }
  void OfferRoom(base::JobId job) { ledgers_.OfferRoom(job); }
  std::vector<ledger::GpuUsage> UsageOf(base::JobId job) const { return ledgers_.UsageOf(job); }
  // What the ledger was told last that the driver shows beyond it.
  base::Bytes OutsideOf(base::JobId job, const std::string& uuid) const;
  // Managed memory of all jobs on the GPU, as their processes count it: so much of it is there at most.
  base::Bytes ManagedOn(const std::string& uuid) const;
  // A process of a watched job, or one that waits for room, has something to say.
  // Its slot is read in a round of its own: many may notify at once.
  Signal<base::JobId> on_notify;
  std::vector<ledger::SlotStatus> SlotStatusesOf(base::JobId job) const {
    return ledgers_.SlotStatusesOf(job);
  }
  // Host memory that the job's shims have for what they evict, or have evicted.
  base::Bytes HostMemoryOf(base::JobId job) const { return ledgers_.HostMemoryOf(job); }
  // What one context cost there when an earlier daemon looked. What is seen goes before it.
  void ExpectContext(const std::string& uuid, base::Bytes bytes);
  // What one context costs on the GPU; nullopt: not known yet.
  std::optional<base::Bytes> ContextOn(const std::string& uuid) const;

 private:
  ShimChannel(boost::asio::io_context& loop, std::filesystem::path socket, const base::ProcessTable& table)
      : socket_(std::move(socket)), table_(table), ready_(loop) {}
  void Wait();
  base::Result<> Begin(base::JobId job, const keeper::ProcessTree& tree,
                       const std::vector<ledger::GpuLimit>& limits, const ledger::Eviction& eviction);
  void SetContext(const std::string& uuid, base::Bytes bytes);
  std::vector<ledger::GpuLimit> WithContexts(std::vector<ledger::GpuLimit> limits) const;

  // What the driver shows there beyond what is counted.
  struct OnGpu {
    ledger::UncountedMemory outside;
    std::optional<base::Bytes> told;  // what its ledger says of it; nullopt: what an earlier daemon wrote
  };
  struct Job {
    std::vector<ledger::GpuLimit> limits;  // without contexts
    std::map<std::string, OnGpu> on;       // by GPU, where it is, was at the last look or may have been
    base::MonoTime run_began{};
    std::map<std::string, std::uint64_t> refused_told;  // by GPU: the number of the last that was told
    bool overwritten = false;
    bool told_version = false;
  };

  // The figures that were looked at last, and how often they were the same.
  struct Seen {
    std::vector<gpu::OwnedProcess> processes;
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
  std::set<std::string> learned_;                // GPUs on which one was seen
  std::map<std::string, Seen> seen_;             // by GPU
  // Callbacks that outlive this object find nullptr.
  std::shared_ptr<ShimChannel*> channel_ = std::make_shared<ShimChannel*>(this);
};

}  // namespace gpuman::daemon
