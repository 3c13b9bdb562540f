// Hashes chunks of a GPU's memory on that GPU (chunk_hash.ptx), as fast as it reads its memory.
//
// No copy engine takes part: the kernels read the addresses of the chunks from page-locked host memory and
// leave the sums there. So hashes do not wait for the copies that have been submitted before them.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "mover/chunk_hash.h"
#include "mover/gpus.h"

namespace gpuman::mover {

// One for each GPU; Gpus::HasherOf makes it. Thread-safe; the calls change the thread's current context.
class Hasher {
 public:
  class Pending;
  // At most this many sets of chunks can be pending at once.
  static constexpr std::size_t kSlots = 64;

  // Loads the kernel, and has it hash something of which the processor knows the hash. Takes a fraction of a
  // second, as the driver compiles the kernel, and less than 2 MiB of the GPU. `gpus` and `key` outlive it.
  static base::Result<std::unique_ptr<Hasher>> Make(Gpus& gpus, int gpu, const HashKey& key);
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  ~Hasher();

  // The hashes of chunks of this GPU's memory, in the order asked: kChunk bytes at each address, a multiple
  // of 16. Nobody may unmap or write them before it returns.
  base::Result<std::vector<ChunkHash>> Hash(std::span<const driver::abi::CUdeviceptr> chunks);

  // The same in two steps. Begin returns at once; it does not wait for copies into the chunks on other
  // streams. kExhausted: kSlots are pending; so Begin never waits for somebody who waits for it.
  base::Result<Pending> Begin(std::span<const driver::abi::CUdeviceptr> chunks);
  base::Result<std::vector<ChunkHash>> Await(Pending pending);

 private:
  static constexpr std::size_t kTogether = 512;  // chunks of one launch: 1 GiB
  using Sums = std::array<std::uint64_t, HashKey::kSums>;

  // What one launch reads and leaves in page-locked host memory.
  struct Group {
    std::array<driver::abi::CUdeviceptr, kTogether> chunks;
    std::array<Sums, kTogether> sums;
  };
  // A stream, with what the launches on it need; one Pending at a time has it.
  struct Slot {
    bool taken = false;
    driver::abi::CUstream stream = nullptr;
    driver::abi::CUdeviceptr sums = 0;  // of kTogether chunks, on the GPU; one launch after the other
    std::vector<Group*> groups;         // made when they are needed
  };

  Hasher(Gpus& gpus, int gpu, const HashKey& key) : gpus_(gpus), gpu_(gpu), key_(key) {}
  base::Result<> Load();
  base::Result<> Test();
  base::Result<Pending> Take(std::size_t chunks);
  base::Result<> MakeGroups(Slot& slot, std::size_t count);
  base::Result<> Launch(const Slot& slot, Group& group, std::span<const driver::abi::CUdeviceptr> chunks);
  void Release(Slot& slot);

  Gpus& gpus_;
  const int gpu_;
  const HashKey& key_;
  driver::abi::CUmodule module_ = nullptr;
  driver::abi::CUfunction hash_ = nullptr, hand_over_ = nullptr;
  driver::abi::CUdeviceptr scratch_ = 0;  // the key's tables, then the sums of each slot
  std::mutex mutex_;
  std::array<Slot, kSlots> slots_;  // what is taken belongs to its Pending, all else to the mutex
  std::vector<void*> pinned_;
};

// Chunks that are being hashed. Move-only; the Hasher outlives it. The destructor waits for the kernels:
// after it nothing reads the chunks any more.
class Hasher::Pending {
 public:
  Pending(Pending&& other) noexcept { *this = std::move(other); }
  Pending& operator=(Pending&& other) noexcept;
  ~Pending() { Drop(); }

 private:
  friend class Hasher;
  Pending(Hasher& hasher, Slot& slot, std::size_t chunks) : hasher_(&hasher), slot_(&slot), chunks_(chunks) {}
  void Drop();

  Hasher* hasher_ = nullptr;
  Slot* slot_ = nullptr;
  std::size_t chunks_ = 0;
};

}  // namespace gpuman::mover
