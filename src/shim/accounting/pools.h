// Memory of the driver's pools (cuMemAllocAsync and its like). A pool takes memory from the device in pieces
// and keeps it for a while: what counts is what the driver says that the pool has.
//
// The driver does not tell beforehand whether an allocation lets its pool grow. So the shim counts the most
// that the pool can grow by before it asks the driver, and gives back afterwards what the pool did not grow
// by. At the limit that would refuse what fits into the unused parts of a pool. For this the process sets a
// little memory aside when the limit comes near, the spare: it counts, no pool has it, and it covers the
// asking.
//
// The caller of each function holds state.pools.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/accounting_state.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {

// Measured on an H200: a pool grows by pieces, never by more than hold the request.
inline constexpr std::uint64_t kPoolPiece = std::uint64_t{32} << 20;
// What lies in unused memory without a whole piece in it touches two pieces at most.
inline constexpr std::uint64_t kSpareBytes = 2 * kPoolPiece;
// The process sets a spare aside when less than this is left.
inline constexpr std::uint64_t kNearLimit = 8 * kPoolPiece;

// Counts what each pool has now, where that has changed. What came back fills the spare first while the limit
// is near; the process gives the spare up with the last memory of its pools.
void RefreshPools(AccountingState& state);

// Takes from the device's pools, the driver's and the shim's, what nobody uses. It returns false where
// nothing came back.
bool TrimPools(AccountingState& state, int device);

// Is called before an allocation of `bytes`. It reserves what a pool can grow by, or finds that the spare
// covers that, and `reserved` is 0 then. It returns false where neither can be.
bool CoverGrowth(AccountingState& state, int device, std::uint64_t bytes, std::uint64_t& reserved);

enum class Grown {
  kCovered,  // by what was reserved for it
  kOnSpare,  // the spare, or part of it, is the pool's now
  kTooFar    // by more than the driver ever did; that is counted all the same
};
// Is called after the allocation: it counts what the pool has grown by instead of what was reserved.
Grown SettlePool(AccountingState& state, driver::abi::CUmemoryPool pool, int device, std::uint64_t reserved);

// The program has made a pool. The pool counts where its memory is, whoever allocates from it.
void PoolMade(AccountingState& state, driver::abi::CUmemoryPool pool,
              const driver::abi::CUmemLocation& location);
// Returns the pool that cuMemAllocAsync takes memory from on the device; null where the driver does not tell.
driver::abi::CUmemoryPool CurrentPool(int device);
// Returns the device of a pool; kNoDevice: its memory is the host's. A pool that nobody made here, and that
// is no device's default pool, is taken to be of the stream's device.
int DeviceOfPool(AccountingState& state, driver::abi::CUmemoryPool pool, int of_stream);

// Whether the pool has `bytes` that nobody uses, in one place or in many.
bool HasUnused(driver::abi::CUmemoryPool pool, std::uint64_t bytes);

// A pool that is about to be destroyed, and what it will have then still.
struct Leaving {
  bool known;
  bool in_use;  // by allocations that are not freed
  std::uint64_t left;
};
Leaving BeforeDestroy(AccountingState& state, driver::abi::CUmemoryPool pool);
// The pool is destroyed. What it has left counts until all work of its device is done, or for good where it
// is in use: nobody tells any more when that ends.
void AfterDestroy(AccountingState& state, driver::abi::CUmemoryPool pool, const Leaving& leaving);
// Returns how many bytes of destroyed pools wait for the device's work; Ended: `bytes` of them are the
// device's again.
std::uint64_t EndingOn(AccountingState& state, int device);
void Ended(AccountingState& state, int device, std::uint64_t bytes);

}  // namespace gpuman::shim
