// Memory of pools (cuMemAllocAsync and its like). A pool takes memory from the device in pieces and keeps it
// for a while: what counts is what the driver says that the pool has.
//
// Whether an allocation lets its pool grow is the driver's secret. So what it can grow by at most counts
// before the driver is asked, and what it did not grow by is given back afterwards. At the limit that would
// refuse what fits into the unused parts of a pool: for this the process sets a little aside when the limit
// comes near, the spare. It counts, no pool has it, and it covers the asking.
//
// All for who holds state.pools.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/accounting_state.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {

// Measured on an H200: a pool grows by pieces, never by more than hold the request.
inline constexpr std::uint64_t kPoolPiece = std::uint64_t{32} << 20;
// What lies in unused memory without a whole piece in it touches two pieces at most.
inline constexpr std::uint64_t kSpareBytes = 2 * kPoolPiece;
// With less than this left a spare is set aside.
inline constexpr std::uint64_t kNearLimit = 8 * kPoolPiece;

// Counts what each pool has now where that is less than before, or more. What came back fills the spare first
// while the limit is near; the spare ends with the last memory of pools.
void RefreshPools(AccountingState& state);

// Takes from the device's pools, the driver's and the shim's, what nobody uses. False: nothing came back.
bool TrimPools(AccountingState& state, int device);

// Before an allocation of `bytes`: reserves what a pool can grow by, or finds that the spare covers it, then
// `reserved` is 0. False: neither.
bool CoverGrowth(AccountingState& state, int device, std::uint64_t bytes, std::uint64_t& reserved);

enum class Grown {
  kCovered,  // by what was reserved for it
  kOnSpare,  // the spare, or part of it, is the pool's now
  kTooFar    // by more than the driver ever did; that is counted all the same
};
// After it: counts what the pool has grown by instead.
Grown SettlePool(AccountingState& state, driver::abi::CUmemoryPool pool, int device, std::uint64_t reserved);

// A pool was made: it counts where its memory is, whoever allocates from it.
void PoolMade(AccountingState& state, driver::abi::CUmemoryPool pool,
              const driver::abi::CUmemLocation& location);
// The one that cuMemAllocAsync takes memory from on the device; null where the driver does not tell.
driver::abi::CUmemoryPool CurrentPool(int device);
// The device of a pool; kNoDevice: its memory is the host's. What nobody made here and is no device's default
// is taken to be the stream's device's.
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
// It is. What it has left counts until all work of its device is done, or for good where it is in use: nobody
// tells any more when that ends.
void AfterDestroy(AccountingState& state, driver::abi::CUmemoryPool pool, const Leaving& leaving);
// What of destroyed pools waits for the device's work; `bytes` of it are the device's again.
std::uint64_t EndingOn(AccountingState& state, int device);
void Ended(AccountingState& state, int device, std::uint64_t bytes);

}  // namespace gpuman::shim
