// Device memory that has left one process and is about to serve another.
//
// Making and mapping memory while copies run slows them down by a third (H200: 78 GB/s in sum instead of 101,
// as cuMemSetAccess waits for the copy engine). What is being emptied is as large as what is being filled, so
// it is filled as it is. Between movers, of different users, nothing is passed on. Thread-safe.
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

class FreeList {
 public:
  // With the descriptor that it came by: the driver refuses to pass on what was imported.
  struct Block {
    Memory memory;
    base::Fd file;
  };

  // One piece more of that size is about to be needed on the GPU, until Take or Cancel.
  void Expect(int gpu, std::uint64_t bytes);
  // One of those expected: what is there for it, if there is.
  std::optional<Block> Take(int gpu, std::uint64_t bytes);
  // One of those expected is not.
  void Cancel(int gpu, std::uint64_t bytes);
  // Kept as long as it is expected, else gone.
  void Leave(Memory memory, base::Fd file);
  // All that is kept is gone: the GPU has no room. False: there was nothing.
  bool Empty();

 private:
  struct Bucket {
    std::size_t expected = 0;
    std::vector<Block> kept;
  };
  // What is kept and not expected any more.
  static std::optional<Block> Surplus(Bucket& bucket);

  std::mutex mutex_;
  std::map<std::pair<int, std::uint64_t>, Bucket> buckets_;
};

}  // namespace gpuman::mover
