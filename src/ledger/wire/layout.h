// The ledger of a job: memory that the daemon and the shims of the job's processes share.
// docs/shim-protocol.md says what each field means and who may write it. The layout is plain C, the same on
// every 64-bit machine.
//
// The job's programs can write anywhere in the ledger. No reader follows an index or a count in it unchecked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuman::ledger::wire {

inline constexpr std::uint32_t kMagic = 0x4c4d5047;  // "GPML"
inline constexpr std::uint32_t kVersion = 4;
inline constexpr unsigned kMaxGpus = 16;
inline constexpr unsigned kSlots = 1024;  // processes of one job at the same time
// The unit of all counts, in bytes. A count of 32 bits reaches 16 TiB.
inline constexpr std::uint64_t kUnit = 4096;
inline constexpr std::uint64_t kNoLimit = UINT64_MAX;

// Why an allocation was refused.
enum class RefusedBy : std::uint32_t {
  kNobody = 0,
  kLimit = 1,    // the allocation would have passed the job's hard limit
  kSharing = 2,  // no room came in time on a GPU that is shared
  kDevice = 3    // the GPU had no memory left
};

// What was refused.
enum class RefusedWhat : std::uint32_t {
  kMemory = 0,
  kContext = 1  // `bytes` is 0 where nobody knows what a context costs there
};

// The last allocation on the GPU that was refused to a program of the job. It is for people: the daemon
// decides nothing by it. When two allocations are refused at the same time, their words may mix.
struct Refusal {
  std::uint64_t number;  // grows with each refusal, and is written last; 0: there was no refusal
  std::uint64_t bytes;   // what the program asked for
  std::uint64_t used;    // bytes that the job used on this GPU then, with `outside`
  std::uint64_t limit;   // the hard limit then; kNoLimit: none
  std::uint64_t at;      // CLOCK_MONOTONIC, ns
  std::uint32_t by;      // RefusedBy
  std::uint32_t what;    // RefusedWhat
};

// One GPU of the job. The first cache line changes rarely, the second changes with every allocation.
struct Gpu {
  std::uint8_t uuid[16];
  std::uint64_t limit;          // hard, bytes; kNoLimit: none
  std::uint64_t soft;           // bytes; kNoLimit: none
  std::uint64_t context_bytes;  // bytes that one context costs on this GPU; 0: not known yet
  std::uint64_t outside;        // uncounted memory: bytes that the driver shows and no slot counts
  // Bytes that the job may have for now; an allocation beyond them waits. kNoLimit: no bound.
  std::uint64_t room;
  // When the daemon began to read the driver's figures that `outside` comes from; CLOCK_MONOTONIC, ns. 0: it
  // has no figures yet.
  std::uint64_t sampled_at;
  std::uint64_t total;  // Total (slot_balance.h): units of all slots, and the last change
  Refusal refusal;
  // The most bytes that the slots have counted there at a time, of what the driver has granted. For people,
  // as `refusal`.
  std::uint64_t peak;
};

// Memory of a process that can leave a GPU other than the first GPU whose memory can leave, its first home
// (Slot::home). The slot holds the same words for the first home. Only the process that owns the entry
// (homes.h) writes here, with one exception: the daemon writes `order_bytes`.
struct EvictableGpuEntry {
  std::uint32_t owner;        // PackOwner: the process's slot and the GPU; 0: the entry is free
  std::uint32_t wants;        // units that allocations on this GPU wait for
  std::uint64_t evictable;    // bytes on this GPU now that can leave it
  std::uint64_t evicted;      // bytes of this GPU that are in host memory instead
  std::uint64_t order_bytes;  // with kTake: how many bytes of this GPU at least are to be evicted in all
};
// Eight processes with seven further GPUs each have room.
inline constexpr unsigned kHomes = 61;

// What one process has in one account (slot_balance.h).
struct SlotAccount {
  std::uint64_t books;   // SlotBalance
  std::uint64_t intent;  // Intent
};

// The process shares memory on the device with another process. The memory came from the other process (this
// includes evicted memory that the mover has given back), or this process exports it. The driver saves memory
// that came from another process with a checkpoint and then cannot restore it (measured:
// CUDA_ERROR_NOT_SUPPORTED, and the process is lost). So the shim has to evict such memory first.
inline constexpr std::uint32_t kHoldsImported = 1;
// The shim of the process sends a notification (transfer.h) when it has carried out an order, and when it
// refuses an order after some work on it. A shim without this flag is older: the daemon has to look for its
// answer.
inline constexpr std::uint32_t kNotifiesAnswers = 2;
// The shim of the process tells how the process comes to rest, and takes call grants (rest.h).
inline constexpr std::uint32_t kTakesCallGrants = 4;
// Others can reach memory of the process, or it reaches memory of others: it has exported memory of its own
// by descriptor, by dma-buf or through a multicast object, or there is memory on the device that it shares by
// legacy IPC, or has imported. Unlike kHoldsImported this says nothing of memory that came back from the
// mover.
inline constexpr std::uint32_t kShares = 8;
// The shim of the process can bring its memory back behind its closed gate (kStayHeld, orders.h).
inline constexpr std::uint32_t kFetches = 16;

// One process. Only the process that holds the lock on the slot's byte of the file writes here (slot_lock.h),
// with two exceptions: the daemon writes `order`, `order_bytes` (orders.h) and `call_grant` (rest.h), and any
// process may enter a change in `books` (slot_balance.h).
struct Slot {
  std::uint32_t pid;         // as the daemon sees it; 0: the slot is free
  std::uint32_t flags;       // kHoldsImported, kNotifiesAnswers, kTakesCallGrants, kShares, kFetches
  std::uint64_t start_time;  // clock ticks since boot
  SlotAccount gpu[kMaxGpus];
  std::uint32_t order;      // a futex word: the order kind, and the number of the order (orders.h)
  std::uint32_t answered;   // a futex word: the last order that was carried out or refused
  std::uint32_t residency;  // MemoryResidency
  std::uint32_t error;      // why the last order was not carried out: PackError
  std::uint64_t evictable;  // bytes on the first home now that can leave it
  std::uint64_t evicted;    // bytes of the first home that are in host memory instead
  SlotAccount host;         // host memory that holds evicted data of all homes
  // With kTake: how many bytes of the first home at least are to be evicted in all. With kHold: the patience
  // of this order, in ms (orders.h). With kRun: 0 or kStayHeld.
  std::uint64_t order_bytes;
  std::uint64_t wants;           // bytes that allocations wait for, on GPUs without an entry in Ledger::home
  std::uint64_t activity_since;  // CLOCK_MONOTONIC, ns
  std::uint64_t completed;       // calls that went through the gate; grows while the job is watched
  std::uint32_t activity;        // Activity
  // Index + 1 of the first home: the first GPU whose memory can leave. 0: the process sees only one GPU, or
  // has chosen none yet. Ledger::home has the others.
  std::uint32_t home;
  std::uint64_t managed;     // bytes of managed memory, which the driver moves
  std::uint32_t call_grant;  // CallGrant and its number: which calls may pass the closed gate (rest.h)
  std::uint32_t
      grant_report;          // CallGrantReport: the grant that the process has seen last, and how that ended
  std::uint32_t rest;        // PackRest: the GPUs that work, and those for which threads wait at the gate
  std::uint32_t rest_state;  // kRestShut and its like; the upper half grows with each change
};

// How the job's processes take device memory.
enum class AllocationMode : std::uint32_t {
  kPlain = 0,
  kEvictable = 1  // the memory can leave the device and come back
};

// A bit of Ledger::features. The daemon reads `home`: memory of a process can leave several GPUs.
inline constexpr std::uint32_t kFeatureHomes = 1;
// The daemon gives no process the slots that have the processes' peaks instead (peaks.h).
inline constexpr std::uint32_t kFeaturePeaks = 2;

struct Ledger {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t job;
  std::uint32_t gpus;     // how many entries of `gpu` are used
  std::uint32_t changes;  // grows when a limit changes
  std::uint32_t backing;  // AllocationMode; written before the first process joins
  // How long a process that is ordered off the GPU waits for its calls and work in flight; 0: kPatienceMs.
  std::uint32_t patience_ms;
  std::uint64_t host_budget;  // bytes of host memory for evicted data of all processes; kNoLimit: no bound
  std::uint64_t host_total;   // Total (slot_balance.h) of the host memory that all processes keep
  // Above 0: the shims tell what their programs do. A program that makes no call for this time is idle.
  std::uint32_t watched_ms;
  std::uint32_t offers;  // a futex word; grows when there may be room for allocations that wait for it
  std::uint32_t room_patience_ms;  // how long an allocation waits for room; 0: it does not wait
  // Grows when a GPU of a process that comes to rest has ended its work. It is only a hint that others may go
  // on.
  std::uint32_t rests;
  Gpu gpu[kMaxGpus];
  // No room will come for an allocation of this many bytes or more, nor for an allocation of a process whose
  // allocations on that GPU wait for this many bytes together: it fails without waiting. 0: no such size.
  std::uint64_t denied;
  std::uint32_t features;  // what the daemon knows beyond the version: kFeatureHomes, kFeaturePeaks
  std::uint32_t suspends;  // 1: the job is suspended, or on its way: the driver may checkpoint its processes
  EvictableGpuEntry home[kHomes];
  // Above 0: the shims put marks between launches, at which the GPU can stop: work of a tenth of so many us
  // apart (docs/shim-protocol.md).
  std::uint32_t pace_us;
  // Above 0: a program that makes no call for so many microseconds is idle, in place of watched_ms, and tells
  // of its next call at once.
  std::uint32_t alert_us;
  // Grows at least every second while the daemon keeps a process of the job at its gate. 0: an older daemon,
  // which does not show that it lives.
  std::uint32_t life;
  std::uint32_t
      instances;  // one bit for each entry of `gpu` that is a MIG instance; an older daemon writes 0
  Slot slot[kSlots];
};

static_assert(sizeof(Gpu) == 128 && offsetof(Gpu, limit) == 16 && offsetof(Gpu, soft) == 24 &&
              offsetof(Gpu, context_bytes) == 32 && offsetof(Gpu, outside) == 40 &&
              offsetof(Gpu, room) == 48 && offsetof(Gpu, sampled_at) == 56 && offsetof(Gpu, total) == 64 &&
              offsetof(Gpu, refusal) == 72 && offsetof(Gpu, peak) == 120);
static_assert(sizeof(Refusal) == 48 && offsetof(Refusal, bytes) == 8 && offsetof(Refusal, used) == 16 &&
              offsetof(Refusal, limit) == 24 && offsetof(Refusal, at) == 32 && offsetof(Refusal, by) == 40);
static_assert(sizeof(EvictableGpuEntry) == 32 && offsetof(EvictableGpuEntry, wants) == 4 &&
              offsetof(EvictableGpuEntry, evictable) == 8 && offsetof(EvictableGpuEntry, evicted) == 16 &&
              offsetof(EvictableGpuEntry, order_bytes) == 24);
static_assert(sizeof(Slot) == 384 && offsetof(Slot, start_time) == 8 && offsetof(Slot, gpu) == 16 &&
              offsetof(Slot, order) == 272 && offsetof(Slot, answered) == 276 &&
              offsetof(Slot, residency) == 280 && offsetof(Slot, error) == 284 &&
              offsetof(Slot, evictable) == 288 && offsetof(Slot, evicted) == 296 &&
              offsetof(Slot, host) == 304 && offsetof(Slot, order_bytes) == 320 &&
              offsetof(Slot, wants) == 328 && offsetof(Slot, activity_since) == 336 &&
              offsetof(Slot, completed) == 344 && offsetof(Slot, activity) == 352 &&
              offsetof(Slot, home) == 356 && offsetof(Slot, managed) == 360 &&
              offsetof(Slot, call_grant) == 368 && offsetof(Slot, grant_report) == 372 &&
              offsetof(Slot, rest) == 376 && offsetof(Slot, rest_state) == 380);
static_assert(offsetof(Ledger, job) == 8 && offsetof(Ledger, gpus) == 16 && offsetof(Ledger, changes) == 20 &&
              offsetof(Ledger, backing) == 24 && offsetof(Ledger, patience_ms) == 28 &&
              offsetof(Ledger, host_budget) == 32 && offsetof(Ledger, host_total) == 40 &&
              offsetof(Ledger, watched_ms) == 48 && offsetof(Ledger, offers) == 52 &&
              offsetof(Ledger, room_patience_ms) == 56 && offsetof(Ledger, rests) == 60 &&
              offsetof(Ledger, gpu) == 64 && offsetof(Ledger, denied) == 64 + kMaxGpus * sizeof(Gpu) &&
              offsetof(Ledger, features) == 2120 && offsetof(Ledger, suspends) == 2124 &&
              offsetof(Ledger, home) == 2128 && offsetof(Ledger, pace_us) == 4080 &&
              offsetof(Ledger, alert_us) == 4084 && offsetof(Ledger, life) == 4088 &&
              offsetof(Ledger, instances) == 4092 && offsetof(Ledger, slot) == 4096);
static_assert(sizeof(Ledger) == 4096 + kSlots * 384);

}  // namespace gpuman::ledger::wire
