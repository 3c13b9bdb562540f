// Memory of pools (cuMemAllocAsync and its like). A pool takes memory from the device in pieces and keeps it
// for a while: what counts is what the driver says that the pool has. All for who holds guest.pools.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/guest.h"

namespace gpuman::shim {

// What pools grow by (measured on an H200).
inline constexpr std::uint64_t kPoolPiece = std::uint64_t{32} << 20;

// Counts what each pool has now where that is less than before, or more.
void RefreshPools(Guest& guest);

// After an allocation on the device for which `reserved` bytes were reserved: counts what the pool has grown
// by instead. False where it has grown by more than the limit allows; that is counted all the same.
bool SettlePool(Guest& guest, driver::abi::CUmemoryPool pool, int device, std::uint64_t reserved);

// Whether the pool has `bytes` that it need not take from the device.
bool HasRoom(driver::abi::CUmemoryPool pool, std::uint64_t bytes);

// Bytes of the pool that the program has in use.
std::uint64_t UsedOf(driver::abi::CUmemoryPool pool);

// The pool is gone, and all that it had but for the bytes that are in use still.
void ForgetPool(Guest& guest, driver::abi::CUmemoryPool pool, std::uint64_t in_use);

}  // namespace gpuman::shim
