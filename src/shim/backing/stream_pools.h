// The shim's half of pools (cuMemAllocAsync and its like) in a process whose memory can leave the device:
// what a plain pool gives out is memory that the shim backs, in segments of its own
// (accounting/stream_blocks.h). The driver's pool stays empty, and keeps the pool's settings.
//
// A plain pool: a device's default pool, or one that was made with nothing but a device. All for who holds
// state.pools, where nothing else is said.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/stream_blocks.h"

namespace gpuman::shim {

struct BackingState;

struct StreamPool {
  driver::abi::CUmemoryPool handle;  // null: the program has destroyed it
  int device;
  bool known;   // else the entry is free
  bool serves;  // what is asked for from now on
  StreamBlocks blocks;
  std::uint64_t used_high, reserved_high;
};

struct StreamMemory {
  static constexpr unsigned kMaxPools = 32, kMaxEvents = 256;
  StreamPool pool[kMaxPools];  // a region has the index + 1
  Behind event[kMaxEvents];    // the shim's own that are of no use just now
  unsigned events;
  std::uint32_t any;  // atomic; a pool has had memory of the shim's
};

// The program has made a pool, or was told the default one.
void ServePool(BackingState& state, driver::abi::CUmemoryPool pool, const driver::abi::CUmemPoolProps& props);
// The pool, where it serves allocations on the device. Null: they are the driver's.
StreamPool* ServingPool(BackingState& state, driver::abi::CUmemoryPool pool, int device);
// The same, whether it serves any more or not.
StreamPool* KnownPool(BackingState& state, driver::abi::CUmemoryPool pool);
// Others than the device that it is on may use what the pool has, and has it from now on from the driver.
void OpenPoolTo(BackingState& state, driver::abi::CUmemoryPool pool,
                const driver::abi::CUmemAccessDesc* access, std::size_t count);
void PoolDestroyed(BackingState& state, driver::abi::CUmemoryPool pool);

// A segment of so many bytes, which are reserved already and in whole granules.
driver::abi::CUresult AddSegment(BackingState& state, StreamPool& pool, std::uint64_t bytes,
                                 std::uint64_t granule);

// Looks which blocks wait for nothing any more; for who is Relaxed (pools.h), as the next two.
void SettleBlocks(BackingState& state, StreamPool& pool);
// Gives back segments that nobody uses until at most `keep` bytes are left; how many bytes.
std::uint64_t ReleaseSegments(BackingState& state, StreamPool& pool, std::uint64_t keep);
// The same of all pools on the device, and nothing is kept.
std::uint64_t ReleaseSegmentsOn(BackingState& state, int device);
// Whether the device's pools have memory that was freed behind work that may go on.
bool HasPendingFrees(BackingState& state, int device);
// Takes from the device's pools, the driver's and the shim's, what nobody uses, where an allocation found no
// memory. It waits for frees that are not done yet. False: nothing came back, or no memory of the process can
// leave. For who does not hold state.pools.
bool TrimForOthers(BackingState& state, int device);
// After a wait: what each pool has beyond its threshold.
void ReleaseAfterWait(BackingState& state);

// An event of the context; {0, 0}: there is none to be had. And back.
Behind TakeEvent(BackingState& state, std::uint64_t context);
void PutEvent(BackingState& state, const Behind& behind);

// A context is gone, and its events with it. For who does not hold state.pools.
void PoolsWithoutContext(BackingState& state, std::uint64_t context);

}  // namespace gpuman::shim
