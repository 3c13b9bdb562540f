// Device memory that has left one process and is about to serve another one.
//
// Making and mapping memory while copies run slows them down by a third (H200: 78 GB/s in sum instead of 101,
// as cuMemSetAccess waits for the copy engine). The pieces that leave have the same sizes as the pieces that
// come, so a block can be used again without a change. Movers of different users pass no memory on to each
// other. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "mover/gpus.h"

namespace gpuman::mover {

class GpuMemoryFreeList {
 public:
  // Includes the descriptor from which the memory was imported: the driver refuses to export imported memory.
  struct Block {
    DeviceMemory memory;
    base::Fd file;
  };

  // The GPU is about to need one more piece of this size, until Take or Cancel.
  void Expect(int gpu, std::uint64_t bytes);
  // Takes a block for one of the expected pieces, if there is one.
  std::optional<Block> Take(int gpu, std::uint64_t bytes);
  // One of the expected pieces is not needed.
  void Cancel(int gpu, std::uint64_t bytes);
  // Keeps the memory as long as a piece of its size is expected; else frees it.
  void Leave(DeviceMemory memory, base::Fd file);
  // Frees all kept memory, because the GPU has no room. False: there was none.
  bool Empty();

 private:
  struct Bucket {
    std::size_t expected = 0;
    std::vector<Block> kept;
  };
  // Removes a kept block for which no piece is expected any more.
  static std::optional<Block> Surplus(Bucket& bucket);

  std::mutex mutex_;
  std::map<std::pair<int, std::uint64_t>, Bucket> buckets_;
};

}  // namespace gpuman::mover
