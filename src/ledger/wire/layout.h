// The ledger of a job: memory that the daemon and the shims of the job's processes share. What each field
// means and who may write it: docs/shim-protocol.md. Plain C layout, the same on every machine of 64 bits.
//
// The job's programs can write anywhere in it. Nobody follows an index or a count of it unchecked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuman::ledger::wire {

inline constexpr std::uint32_t kMagic = 0x4c4d5047;  // "GPML"
inline constexpr std::uint32_t kVersion = 1;
inline constexpr unsigned kMostGpus = 16;
inline constexpr unsigned kSlots = 1024;  // processes of one job at the same time
// What is counted comes in steps of this size; a count of 32 bits reaches 16 TiB.
inline constexpr std::uint64_t kUnit = 4096;
inline constexpr std::uint64_t kNoLimit = UINT64_MAX;

// One GPU of the job. The first cache line changes rarely, the second with every allocation.
struct Gpu {
  std::uint8_t uuid[16];
  std::uint64_t limit;          // hard, bytes; kNoLimit: none
  std::uint64_t soft;           // bytes; kNoLimit: none
  std::uint64_t context_bytes;  // what one context costs on this GPU; 0: not known yet
  std::uint64_t outside;        // bytes of the job that the driver shows and no slot counts
  std::uint8_t reserved0[16];
  std::uint64_t total;  // Total: units of all slots, and the change that brought them there
  std::uint8_t reserved1[56];
};

// What one process has on one GPU.
struct Holding {
  std::uint64_t books;   // Books
  std::uint64_t intent;  // Intent
};

// One process. Only who holds the lock on the slot's byte of the file writes here (slot_lock.h).
struct Slot {
  std::uint32_t pid;  // as the daemon sees it; 0: free
  std::uint32_t reserved0;
  std::uint64_t start_time;  // clock ticks since boot
  Holding gpu[kMostGpus];
  std::uint8_t reserved1[48];
};

struct Ledger {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t job;
  std::uint32_t gpus;     // how many of `gpu` are used
  std::uint32_t changes;  // grows when a limit changes
  std::uint8_t reserved0[40];
  Gpu gpu[kMostGpus];
  std::uint8_t reserved1[4096 - 64 - kMostGpus * sizeof(Gpu)];
  Slot slot[kSlots];
};

static_assert(sizeof(Gpu) == 128 && offsetof(Gpu, limit) == 16 && offsetof(Gpu, soft) == 24 &&
              offsetof(Gpu, context_bytes) == 32 && offsetof(Gpu, outside) == 40 &&
              offsetof(Gpu, total) == 64);
static_assert(sizeof(Slot) == 320 && offsetof(Slot, start_time) == 8 && offsetof(Slot, gpu) == 16);
static_assert(offsetof(Ledger, job) == 8 && offsetof(Ledger, gpus) == 16 && offsetof(Ledger, changes) == 20 &&
              offsetof(Ledger, gpu) == 64 && offsetof(Ledger, slot) == 4096);
static_assert(sizeof(Ledger) == 4096 + kSlots * 320);

}  // namespace gpuman::ledger::wire
