// The ledger of a job: memory that the daemon and the shims of the job's processes share.
// docs/shim-protocol.md says what each field means and who may write it. Plain C layout, the same on every
// 64-bit machine.
//
// The job's programs can write anywhere in it. No reader follows an index or a count in it unchecked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuman::ledger::wire {

inline constexpr std::uint32_t kMagic = 0x4c4d5047;  // "GPML"
inline constexpr std::uint32_t kVersion = 4;
inline constexpr unsigned kMaxGpus = 16;
inline constexpr unsigned kSlots = 1024;  // processes of one job at the same time
// Counts are in steps of this size; a count of 32 bits reaches 16 TiB.
inline constexpr std::uint64_t kUnit = 4096;
inline constexpr std::uint64_t kNoLimit = UINT64_MAX;

// Why an allocation was refused.
enum class RefusedBy : std::uint32_t {
  kNobody = 0,
  kLimit = 1,    // it would have passed the job's hard limit
  kSharing = 2,  // no room came on a GPU that is shared
  kDevice = 3    // the GPU had no memory left
};

// The last allocation on the GPU that was refused to a program of the job. It is for people: nothing is
// decided by it, and if two are refused at once their words may mix.
struct Refusal {
  std::uint64_t number;  // grows with each refusal, written last; 0: there was none
  std::uint64_t bytes;   // asked for
  std::uint64_t used;    // by the job on this GPU at that time, with `outside`
  std::uint64_t limit;   // the hard limit at that time; kNoLimit: none
  std::uint64_t at;      // CLOCK_MONOTONIC, ns
  std::uint32_t by;      // RefusedBy
  std::uint8_t reserved[4];
};

// One GPU of the job. The first cache line changes rarely, the second with every allocation.
struct Gpu {
  std::uint8_t uuid[16];
  std::uint64_t limit;          // hard, bytes; kNoLimit: none
  std::uint64_t soft;           // bytes; kNoLimit: none
  std::uint64_t context_bytes;  // what one context costs on this GPU; 0: not known yet
  std::uint64_t outside;        // bytes of the job that the driver shows and no slot counts
  std::uint64_t room;  // bytes that the job may have for now: allocations beyond it wait; kNoLimit: none
  std::uint8_t reserved0[8];
  std::uint64_t total;  // Total: units of all slots, and the change that made it
  Refusal refusal;
  std::uint8_t reserved1[8];
};

// What one process has on one GPU.
struct Holding {
  std::uint64_t books;   // Books
  std::uint64_t intent;  // Intent
};

// The process has memory on the device that came from another process; all memory that was away and came back
// is such memory. The driver saves it with a checkpoint and then cannot restore it (measured:
// CUDA_ERROR_NOT_SUPPORTED, and the process is lost), so the shim has to evict it first.
inline constexpr std::uint32_t kHoldsImported = 1;
// The process's shim sends a notification when it has carried an order out (transfer.h), and when it refuses
// one that it has worked on. Without the flag it is an older shim: whoever waits for its answer has to look.
inline constexpr std::uint32_t kNotifiesAnswers = 2;

// One process. Only the process that holds the lock on the slot's byte of the file writes here (slot_lock.h),
// except that the daemon writes `order` and `order_bytes` (orders.h).
struct Slot {
  std::uint32_t pid;         // as the daemon sees it; 0: free
  std::uint32_t flags;       // kHoldsImported, kNotifiesAnswers
  std::uint64_t start_time;  // clock ticks since boot
  Holding gpu[kMaxGpus];
  std::uint32_t order;        // a futex word: what to do, and how many orders there were (orders.h)
  std::uint32_t answered;     // a futex word: the last order that was carried out or refused
  std::uint32_t stage;        // MemoryStage
  std::uint32_t error;        // why the last order was not carried out: PackError
  std::uint64_t evictable;    // bytes on the device now that can leave it
  std::uint64_t evicted;      // bytes in host memory instead
  Holding host;               // host memory that holds evicted data
  std::uint64_t order_bytes;  // the daemon writes it, with kTake: bytes that are to be away in all, at least
  std::uint64_t wants;        // bytes that allocations wait for
  std::uint64_t activity_since;  // CLOCK_MONOTONIC, ns
  std::uint64_t completed;       // calls that went through the gate; grows while the job is watched
  std::uint32_t activity;        // Activity
  std::uint32_t home;            // index + 1 of the GPU whose memory can leave; 0: the process sees only one
  std::uint64_t managed;         // bytes of managed memory: the driver moves it
  std::uint8_t reserved1[16];
};

// How the job's processes take device memory.
enum class AllocationMode : std::uint32_t {
  kPlain = 0,
  kEvictable = 1  // can leave the device and come back
};

struct Ledger {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t job;
  std::uint32_t gpus;     // how many of `gpu` are used
  std::uint32_t changes;  // grows when a limit changes
  std::uint32_t backing;  // AllocationMode; written before the first process joins
  // How long a process that is to leave the GPU waits for its calls and work in flight; 0: kPatienceMs.
  std::uint32_t patience_ms;
  std::uint64_t host_budget;  // bytes of host memory for evicted data of all processes; kNoLimit: no bound
  std::uint64_t host_total;   // Total of the host memory that they keep
  // Above 0 the shims tell what their programs do: a program that submits nothing for so long is idle.
  std::uint32_t watched_ms;
  std::uint32_t offers;  // a futex word; grows when there may be room for allocations that wait for it
  std::uint32_t room_patience_ms;  // how long an allocation waits for room; 0: it does not
  std::uint8_t reserved0[4];
  Gpu gpu[kMaxGpus];
  // No room will come for an allocation that takes what the process waits for to this many bytes or more: it
  // fails without waiting. 0: there is no such size.
  std::uint64_t denied;
  std::uint8_t reserved1[4096 - 64 - kMaxGpus * sizeof(Gpu) - 8];
  Slot slot[kSlots];
};

static_assert(sizeof(Gpu) == 128 && offsetof(Gpu, limit) == 16 && offsetof(Gpu, soft) == 24 &&
              offsetof(Gpu, context_bytes) == 32 && offsetof(Gpu, outside) == 40 &&
              offsetof(Gpu, room) == 48 && offsetof(Gpu, total) == 64 && offsetof(Gpu, refusal) == 72);
static_assert(sizeof(Refusal) == 48 && offsetof(Refusal, bytes) == 8 && offsetof(Refusal, used) == 16 &&
              offsetof(Refusal, limit) == 24 && offsetof(Refusal, at) == 32 && offsetof(Refusal, by) == 40);
static_assert(sizeof(Slot) == 384 && offsetof(Slot, start_time) == 8 && offsetof(Slot, gpu) == 16 &&
              offsetof(Slot, order) == 272 && offsetof(Slot, answered) == 276 &&
              offsetof(Slot, stage) == 280 && offsetof(Slot, error) == 284 &&
              offsetof(Slot, evictable) == 288 && offsetof(Slot, evicted) == 296 &&
              offsetof(Slot, host) == 304 && offsetof(Slot, order_bytes) == 320 &&
              offsetof(Slot, wants) == 328 && offsetof(Slot, activity_since) == 336 &&
              offsetof(Slot, completed) == 344 && offsetof(Slot, activity) == 352 &&
              offsetof(Slot, home) == 356 && offsetof(Slot, managed) == 360);
static_assert(offsetof(Ledger, job) == 8 && offsetof(Ledger, gpus) == 16 && offsetof(Ledger, changes) == 20 &&
              offsetof(Ledger, backing) == 24 && offsetof(Ledger, patience_ms) == 28 &&
              offsetof(Ledger, host_budget) == 32 && offsetof(Ledger, host_total) == 40 &&
              offsetof(Ledger, watched_ms) == 48 && offsetof(Ledger, offers) == 52 &&
              offsetof(Ledger, room_patience_ms) == 56 && offsetof(Ledger, gpu) == 64 &&
              offsetof(Ledger, denied) == 64 + kMaxGpus * sizeof(Gpu) && offsetof(Ledger, slot) == 4096);
static_assert(sizeof(Ledger) == 4096 + kSlots * 384);

}  // namespace gpuman::ledger::wire
