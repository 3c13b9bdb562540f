// One process's memory between its GPUs and the host: a transfer for each GPU (gpu_transfer.h). All
// transfers copy at the same time, each over its own GPU's bus.
//
// A process hands out its memory over any number of connections, each with memory of one GPU, and gets all of
// it back over one. `source` is the GPU that the memory comes from; where a step names none, it is a step of
// all transfers. Thread-safe: of each transfer one step runs at a time, a second one waits; Begin, Grant,
// CallOff and Hold may come at any time.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "mover/gpu_transfer.h"
#include "mover/transfer_progress_listener.h"
#include "suspend/request.h"

namespace gpuman::mover {

class ProcessMemory {
 public:
  ProcessMemory(base::ProcessId process, Gpus& gpus, SegmentPool& pool, GpuMemoryFreeList& free_list,
                KeptCopiesBudget& kept, const HashingRule& hashing)
      : shared_{process, gpus, pool, free_list, kept, hashing} {}

  // What Take begins with. To be asked in the order of the daemon's requests, as Forget is.
  EvictionEpoch epoch() const { return epoch_; }
  // The process has all of its memory: ends the epoch, which is what Drop takes.
  EvictionEpoch Forget();

  // For the steps see GpuTransfer. A message with memory of several GPUs is refused.
  suspend::MoverAnswer Take(base::Fd connection, bool whole, const std::string& target, EvictionEpoch epoch,
                            TransferProgressListener& progress);
  suspend::MoverAnswer Secure(const std::string& source, const std::string& target,
                              TransferProgressListener& progress);
  // Secure without a request.
  void Finish(const std::string& source, const std::string& target);
  // `gpu`: where the process will be; only for a process with memory of one GPU. If one transfer fails, no
  // transfer stays loaded.
  suspend::MoverAnswer Load(const std::string& source, const std::string& gpu,
                            TransferProgressListener& progress);
  // Loads the rest of all transfers first. kDone: the mover has no memory of the process any more.
  suspend::MoverAnswer Give(base::Fd connection, const std::string& gpu, TransferProgressListener& progress);
  // The process does not need what the mover has of this epoch and of earlier ones.
  void Drop(const std::string& source, EvictionEpoch last);
  // The process has ended.
  void End();

  // Sets the room that the next Load of the transfer, or the next Load or Give of all transfers in sum, may
  // take; none: no bound.
  void Begin(const std::string& source, std::optional<base::Bytes> room);
  void Grant(const std::string& source, base::Bytes bytes) { CreditOf(source).Grant(bytes.count); }
  // From now on no Load of the transfer waits for room.
  void CallOff(const std::string& source);
  // Gets descriptors that another mover had of a batch which it did not finish.
  void Hold(const std::string& source, std::size_t first, std::vector<base::Fd> files);

 private:
  // The transfers with memory that one step uses, all locked as long as it runs.
  struct Locked {
    std::vector<GpuTransfer*> transfers;
    std::vector<std::unique_lock<std::mutex>> locks;
  };

  GpuTransfer& TransferOf(const std::string& gpu);
  std::vector<GpuTransfer*> TransfersOf(const std::string& source);
  GpuRoomCredit& CreditOf(const std::string& source) {
    return source.empty() ? credit_ : TransferOf(source).credit();
  }
  base::Result<> Find();
  base::Result<Locked> LockTransfers(const std::string& source);
  base::Error Nothing() const;
  base::Result<GpuTransfer::Opening> Open(PartsMessage message);
  suspend::MoverAnswer TakeNothing(int connection) const;
  suspend::MoverAnswer LoadAll(std::span<GpuTransfer* const> transfers, const std::string& gpu,
                               GpuRoomCredit& credit, TransferProgressListener& progress,
                               const GpuTransfer::SendParts& send);
  using OwnByTransfer = std::map<GpuTransfer*, std::vector<GpuTransfer::Own>>;
  base::Result<OwnByTransfer> ReceiveOwn(std::span<GpuTransfer* const> transfers, int connection);
  base::Result<> FillOwn(std::span<GpuTransfer* const> transfers, int connection,
                         TransferProgressListener& progress, suspend::MoverAnswer& answer);

  GpuTransfer::Shared shared_;
  std::atomic<EvictionEpoch> epoch_{};
  GpuRoomCredit credit_;  // of steps of all transfers
  std::mutex find_mutex_;
  bool found_ = false;  // what earlier movers took is in the transfers
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<GpuTransfer>> transfers_;  // by suspend::BareUuid
  struct UnnamedBatch {
    std::size_t first;
    std::vector<base::Fd> files;
  };
  std::vector<UnnamedBatch> held_;  // without a named GPU: from a daemon that knows of one only
};

}  // namespace gpuman::mover
