// Memory of shared jobs on its way out of their GPUs. For each Evict of the scheduler the job's processes are
// ordered to give up memory, their movers copy it to host memory (MovedOut), and in the end there is an
// EvictDone. An order says "at least so many bytes"; the shim chooses the pieces.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "base/untrusted_socket.h"
#include "base/weak_self.h"
#include "daemon/sharing/process_gpu.h"
#include "daemon/sharing/shared_job.h"
#include "ledger/ledgers.h"
#include "share/events.h"
#include "suspend/checkpointer.h"

namespace gpuman::daemon {

class Core;
class MemoryRestores;
class ShimChannel;
class SuspendController;

class MemoryEvictions {
 public:
  // `tell` and `check` may call this object; `order` and `check_soon` may not.
  struct Callbacks {
    // Gets MovedOut and EvictDone.
    std::function<void(const share::Event&)> tell;
    // Gives the order to the process.
    std::function<base::Result<>(base::JobId, base::ProcessId, const ledger::ProcessOrder&)> order;
    // The job's slots are worth a look: now, or later from the loop.
    std::function<void(base::JobId)> check, check_soon;
  };

  // All must outlive this object.
  MemoryEvictions(Core& core, ShimChannel& shims, SuspendController& suspension, MemoryRestores& restores,
                  Callbacks callbacks);
  MemoryEvictions(const MemoryEvictions&) = delete;
  MemoryEvictions& operator=(const MemoryEvictions&) = delete;

  // Memory that a mover has loaded goes first, then that of the processes that have most; none of those in
  // `stay`. Memory that does not fit into what jobs may keep in host memory (suspend.host_memory) stays.
  // Processes get their orders with SendOrders.
  void Begin(const SharedJob& job, const share::action::Evict& order, const std::set<base::ProcessId>& stay);
  // Gives each process one order, for all GPUs that it has to leave and has not left yet.
  void SendOrders();
  // The job's processes get no order that they have not got yet.
  void DropOrders(base::JobId job);
  // A process obeys its order, and has sent its connection.
  void Take(const SharedJob& job, base::ProcessId process, base::UntrustedSocket connection);
  // Call with new slots of the job.
  void OnSlots(base::JobId job, const std::vector<ledger::SlotStatus>& slots);
  // Takes the process's order back: it keeps its memory, and nobody waits for it. False: it had no order.
  bool CancelOrder(base::JobId job, const base::ProcessId& process, const std::string& why);
  // Ends what is under way, without an EvictDone.
  void Abort(base::JobId job);
  // The job has left: it gets no more events.
  void Forget(base::JobId job) { jobs_.erase(job); }

  bool IsUnderWay(base::JobId job) const;
  // The GPUs that memory of the job leaves.
  std::set<std::string> GpusOf(base::JobId job) const;
  // Memory that jobs have been ordered to bring to host memory, and that is not there yet.
  base::Bytes HostMemoryComing() const;

 private:
  // From one GPU.
  struct Eviction {
    share::OrderId order = 0;
    // Processes that have not answered yet, and how much of their memory of this GPU is to be away in all.
    std::map<base::ProcessId, base::Bytes> ordered{};
    unsigned moving = 0;  // transfers at the movers
    std::string why{};
    bool works = false;                                    // a process did not come to rest
    base::Bytes host{};                                    // what the job will have in host memory
    std::map<base::ProcessId, std::string> from_movers{};  // why a process could not be moved
  };
  // Memory that a process hands out by one connection: it is of one GPU, which the mover tells with its first
  // notice. Until then it may be of any GPU that the process was ordered to leave.
  struct Departure {
    base::JobId job;
    suspend::MoverUser owner;
    base::ProcessId process;
    std::map<std::string, share::OrderId> orders{};  // by GPU
    std::string gpu{};                               // as the mover names it; empty: not named yet
    bool taken = false;                              // the process has given the memory away
    base::Bytes moved{}, unchanged{};                // told so far
  };
  struct Job {
    std::map<std::string, Eviction> evictions;  // by GPU
    std::set<base::ProcessId> to_order;         // processes that are to leave a GPU, and have no order yet
  };

  void Finish(base::JobId job, const std::string& gpu);
  // Has another mover finish a move that a mover has begun.
  void TakeOver(const std::shared_ptr<Departure>& departure, int losses);
  // `named`: the GPU as the mover names it; only suspend::BareUuid of it counts. Empty: not named.
  void Name(Departure& departure, const std::string& named);
  void TellMovedOut(Departure& departure, const std::string& named, base::Bytes bytes, base::Bytes unchanged);
  void OnTaken(const Departure& departure, const std::string& why);
  void OnTransferred(base::JobId job, const ProcessGpu& key, share::OrderId order, const std::string& why);
  // The rest of the host memory that all jobs together may use. HostMemoryLeft also subtracts memory that
  // jobs have been ordered to bring there; HostMemoryUnused subtracts only memory that is there now.
  base::Bytes HostMemoryLeft() const { return HostMemoryUnused() - HostMemoryComing(); }
  base::Bytes HostMemoryUnused() const;

  Core& core_;
  ShimChannel& shims_;
  SuspendController& suspension_;
  MemoryRestores& restores_;
  suspend::Checkpointer& movers_;
  Callbacks callbacks_;
  std::map<base::JobId, Job> jobs_;
  base::WeakSelf<MemoryEvictions> self_{this};
};

}  // namespace gpuman::daemon
