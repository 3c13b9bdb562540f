// Memory of the driver's pools (cuMemAllocAsync and similar functions). A pool takes memory from the device
// in pieces and keeps it for a while. What counts is the memory that the pool has, as the driver tells it.
//
// The driver does not tell in advance whether an allocation lets its pool grow. So the shim counts the most
// that the pool can grow by before it asks the driver, and afterwards gives back what the pool did not grow
// by. At the limit this alone would refuse allocations that fit into the unused parts of a pool. For these
// the process sets a little memory aside when the limit comes near: the headroom. The headroom counts,
// although no pool has it, and covers such an allocation while the shim asks the driver.
//
// The caller of each function holds state.pools.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/accounting_state.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {

// Measured on an H200: a pool grows by pieces of this size, and by no more pieces than hold the request.
inline constexpr std::uint64_t kPoolPiece = std::uint64_t{32} << 20;
// An allocation in unused memory that has no whole piece in it touches two pieces at most.
inline constexpr std::uint64_t kHeadroomBytes = 2 * kPoolPiece;
// The process sets a headroom aside when less than this is left of the limit.
inline constexpr std::uint64_t kNearLimit = 8 * kPoolPiece;

// Counts what each pool has now. While the limit is near, memory that came back fills the headroom first. The
// process gives up the headroom together with the last memory of its pools.
void RefreshPools(AccountingState& state);

// Takes unused memory from the device's pools, the driver's and the shim's. Returns false where none came.
bool TrimPools(AccountingState& state, int device);

// A hook calls this before an allocation of `bytes`. It reserves what a pool can grow by, or finds that the
// headroom covers that; then `reserved` is 0. Returns false where neither is possible.
bool CoverGrowth(AccountingState& state, int device, std::uint64_t bytes, std::uint64_t& reserved);

enum class PoolGrowthResult {
  kCovered,     // what was reserved covers the growth
  kOnHeadroom,  // the pool has taken the headroom, or a part of it
  kTooFar       // the pool grew further than the driver ever let one grow; this counts all the same
};
// A hook calls this after the allocation: the growth of the pool counts instead of `reserved`.
PoolGrowthResult CommitPool(AccountingState& state, driver::abi::CUmemoryPool pool, int device,
                            std::uint64_t reserved);

// The program has made a pool. The pool counts on the device where its memory is, whichever stream allocates.
void PoolMade(AccountingState& state, driver::abi::CUmemoryPool pool,
              const driver::abi::CUmemLocation& location);
// Returns the pool that cuMemAllocAsync takes memory from on the device; null where the driver does not tell.
driver::abi::CUmemoryPool CurrentPool(int device);
// Returns the device of a pool; kNoDevice: its memory is host memory. Where the program did not make the pool
// here, and it is no device's default pool, the shim assumes the stream's device, `of_stream`.
int DeviceOfPool(AccountingState& state, driver::abi::CUmemoryPool pool, int of_stream);

// Returns whether the pool has `bytes` that are not used, in one place or in many.
bool HasUnused(driver::abi::CUmemoryPool pool, std::uint64_t bytes);

// Returns how many bytes of the device's pools, the driver's and the shim's, no allocation has. UINT64_MAX:
// the driver does not tell; it is not asked where `ask` is false.
std::uint64_t UnusedOn(AccountingState& state, int device, bool ask);

// A pool that is about to be destroyed.
struct DestroyedPool {
  bool known;
  bool in_use;         // the program has not freed all allocations
  std::uint64_t left;  // bytes that the pool will still have
};
DestroyedPool BeforeDestroy(AccountingState& state, driver::abi::CUmemoryPool pool);
// The pool is destroyed. What it has left counts until all work of its device is done. Where it is in use,
// this counts for good: the driver does not tell any more when the use ends.
void AfterDestroy(AccountingState& state, driver::abi::CUmemoryPool pool, const DestroyedPool& leaving);
// EndingOn returns how many bytes of destroyed pools wait for the device's work. GiveBackEnded gives bytes
// back.
std::uint64_t EndingOn(AccountingState& state, int device);
void GiveBackEnded(AccountingState& state, int device, std::uint64_t bytes);

}  // namespace gpuman::shim
