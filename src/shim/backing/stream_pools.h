// The shim's half of pools (cuMemAllocAsync and similar functions), in a process whose memory can leave the
// device. A plain pool gives out backed memory, in segments of its own (accounting/stream_block_allocator.h).
// The driver's pool stays empty, and keeps the pool's settings.
//
// A plain pool is a device's default pool, or a pool that was made with nothing but a device. The callers
// hold state.pools, where nothing else is said.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/stream_block_allocator.h"

namespace gpuman::shim {

struct BackingState;

struct StreamPool {
  driver::abi::CUmemoryPool handle;  // null: the program has destroyed it
  int device;
  bool known;   // false: the entry is free
  bool serves;  // it serves new allocations
  StreamBlockAllocator blocks;
  std::uint64_t used_high, reserved_high;
};

struct StreamPoolsState {
  static constexpr unsigned kMaxPools = 32, kMaxEvents = 256;
  StreamPool pool[kMaxPools];        // Region::pool is the index + 1
  EventAfterFree event[kMaxEvents];  // events of the shim that are not in use
  unsigned events;
  std::uint32_t any;  // atomic; 1: a pool has had memory of the shim
};

// The program has made a pool.
void ServePool(BackingState& state, driver::abi::CUmemoryPool pool, const driver::abi::CUmemPoolProps& props);
// Returns the pool, where it serves allocations on the device; null: the driver serves them.
StreamPool* ServingPool(BackingState& state, driver::abi::CUmemoryPool pool, int device);
// Returns the pool, whether it still serves or not; null: the shim does not know it.
StreamPool* KnownPool(BackingState& state, driver::abi::CUmemoryPool pool);
// The program lets other devices use the pool. They may use what it has; new memory comes from the driver
// from now on.
void OpenPoolTo(BackingState& state, driver::abi::CUmemoryPool pool,
                const driver::abi::CUmemAccessDesc* access, std::size_t count);
void PoolDestroyed(BackingState& state, driver::abi::CUmemoryPool pool);

// Makes a segment of `bytes`, which are whole granules and reserved already.
driver::abi::CUresult AddSegment(BackingState& state, StreamPool& pool, std::uint64_t bytes,
                                 std::uint64_t granule);

// Finds blocks that wait for nothing any more. The caller is RelaxedCapture (driver_calls.h), also for the
// next two functions.
void CheckEvents(BackingState& state, StreamPool& pool);
// Gives back unused segments until at most `keep` bytes are left. Returns how many bytes it gave back.
std::uint64_t ReleaseSegments(BackingState& state, StreamPool& pool, std::uint64_t keep);
// Gives back all unused segments of the pools on the device.
std::uint64_t ReleaseSegmentsOn(BackingState& state, int device);
// Returns whether the device's pools have memory that was freed behind work that may not be done.
bool HasPendingFrees(BackingState& state, int device);
// A hook calls this where an allocation found no memory. It takes unused memory from the device's pools, the
// driver's and the shim's, and waits for frees that are not done yet. Returns false where no memory came
// back, or where no memory of the process can leave. The caller does not hold state.pools.
bool TrimForOthers(BackingState& state, int device);
// The shim calls this after a wait: it gives back what each pool has beyond its threshold.
void ReleaseAfterWait(BackingState& state);

// TakeEvent returns an event of the context; {0, 0}: the driver makes none. PutEvent takes it back.
EventAfterFree TakeEvent(BackingState& state, std::uint64_t context);
void PutEvent(BackingState& state, const EventAfterFree& behind);

// A context has ended, and its events with it. The caller does not hold state.pools.
void PoolsWithoutContext(BackingState& state, std::uint64_t context);

}  // namespace gpuman::shim
