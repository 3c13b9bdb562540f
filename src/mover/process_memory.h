// One process's memory between its GPUs and the host: a lane for each GPU (lane.h). All lanes copy at the
// same time, each over its own GPU's bus.
//
// A process hands out its memory in any number of transfers, each with memory of one GPU, and gets all of it
// back in one. Where a step names no lane, it is a step of all lanes. Thread-safe: in each lane one step runs
// at a time, a second one waits; Begin, Grant, CallOff and Hold may come at any time.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "mover/lane.h"
#include "mover/progress.h"
#include "suspend/request.h"

namespace gpuman::mover {

class ProcessMemory {
 public:
  ProcessMemory(base::ProcessId process, Gpus& gpus, Pool& pool, FreeList& free_list)
      : means_{process, gpus, pool, free_list} {}

  // For the steps see Lane. A message with memory of several GPUs is refused.
  suspend::Answer Take(base::Fd connection, bool whole, const std::string& target, Progress& progress);
  suspend::Answer Secure(const std::string& lane, const std::string& target, Progress& progress);
  // Secure without a request.
  void Finish(const std::string& lane, const std::string& target);
  // `gpu`: where the process will be; only for a process with memory of one GPU. If one lane fails, no lane
  // stays loaded.
  suspend::Answer Load(const std::string& lane, const std::string& gpu, Progress& progress);
  // Loads the rest of all lanes first. kDone: the mover has no memory of the process any more.
  suspend::Answer Give(base::Fd connection, const std::string& gpu, Progress& progress);
  // The process does not need what the mover has.
  void Drop(const std::string& lane);

  // Sets the room that the next Load of the lane, or the next Load or Give of all lanes in sum, may take;
  // none: no bound.
  void Begin(const std::string& lane, std::optional<base::Bytes> room);
  void Grant(const std::string& lane, base::Bytes bytes) { CreditOf(lane).Grant(bytes.count); }
  // From now on no Load of the lane waits for room.
  void CallOff(const std::string& lane);
  // Gets descriptors that another mover had of a batch which it did not finish.
  void Hold(const std::string& lane, std::size_t first, std::vector<base::Fd> files);

 private:
  // The lanes with memory that one step uses, all locked as long as it runs.
  struct Locked {
    std::vector<Lane*> lanes;
    std::vector<std::unique_lock<std::mutex>> locks;
  };

  Lane& LaneOf(const std::string& gpu);
  std::vector<Lane*> LanesOf(const std::string& lane);
  Credit& CreditOf(const std::string& lane) { return lane.empty() ? credit_ : LaneOf(lane).credit(); }
  base::Result<> Find();
  base::Result<Locked> LockLanes(const std::string& lane);
  base::Error Nothing() const;
  base::Result<Lane::Opening> Open(PartsMessage message);
  suspend::Answer TakeNothing(int connection) const;
  suspend::Answer LoadAll(std::span<Lane* const> lanes, const std::string& gpu, Credit& credit,
                          Progress& progress, const Lane::SendParts& send);
  using OwnByLane = std::map<Lane*, std::vector<Lane::Own>>;
  base::Result<OwnByLane> ReceiveOwn(std::span<Lane* const> lanes, int connection);
  base::Result<> FillOwn(std::span<Lane* const> lanes, int connection, Progress& progress,
                         suspend::Answer& answer);

  Lane::Means means_;
  Credit credit_;  // of steps of all lanes
  std::mutex find_mutex_;
  bool found_ = false;  // what earlier movers took is in the lanes
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Lane>> lanes_;  // by suspend::LaneOf
  struct UnnamedBatch {
    std::size_t first;
    std::vector<base::Fd> files;
  };
  std::vector<UnnamedBatch> held_;  // for no named lane: from a daemon that knows of one only
};

}  // namespace gpuman::mover
