// Tells which chunks of pieces differ from their host copies, by hashes that the GPU makes.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "mover/gpus.h"
#include "mover/hasher.h"
#include "mover/host_copy.h"

namespace gpuman::mover {

// Plans the copies out of pieces, one piece after the other, while the GPU hashes the pieces behind. For one
// thread; the caller keeps the pieces mapped and at rest as long as the object lives.
class CopyOutPlanner {
 public:
  // Plans for the pieces from `first` on, which are on one GPU. Without a hasher it plans to copy all of
  // them. `with_process`: segments of which the process has descriptors, since they hold other pieces of it.
  using Segments = std::set<const Segment*>;
  CopyOutPlanner(Hasher* hasher, const HashKey& key, std::span<const DeviceMemory> memory,
                 std::span<HostCopy> copies, std::size_t first, const Segments& with_process);
  // Sets the chunk records of the next piece (host_copy.h).
  void Plan();

 private:
  struct Group {
    std::size_t begin = 0, end = 0;  // pieces
    std::optional<Hasher::Pending> pending{};
  };
  std::optional<Group> Begin(std::size_t piece);
  void NextGroup();
  bool IsTrusted(const Segment* segment);

  const HashKey& key_;
  Hasher* const hasher_;
  const std::span<const DeviceMemory> memory_;
  const std::span<HostCopy> copies_;
  std::size_t next_;
  std::optional<Group> coming_;
  std::size_t group_end_;
  std::vector<ChunkHash> hashes_;  // of the pieces before group_end_ that are not planned; empty: not known
  std::size_t used_ = 0;           // of hashes_
  // A segment that nobody but the mover can write, or that the process has for a reason. What a process does
  // to its own host memory is found when the memory comes back (CountChanged).
  std::map<const Segment*, bool> trusted_;
};

// A piece that has come from its host copy.
struct RestoredPiece {
  driver::abi::CUdeviceptr device;
  const HostCopy* copy;
};
// Counts the chunks whose hash is not the one that they left with. 0 also where the GPU cannot tell.
std::size_t CountChanged(Hasher* hasher, std::span<const RestoredPiece> pieces);

}  // namespace gpuman::mover
