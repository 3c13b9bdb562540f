// Plain device memory (cuMemAlloc), managed memory, and the common part of freeing every kind.
#pragma once

#include "sim/cuda/driver.h"

namespace gpuman::sim::cuda {

// Up to this size an allocation shares a 2 MiB block; beyond, it gets blocks of its own (measured on an
// H200).
inline constexpr std::uint64_t kLargestSmall = 1 * kMiB;
inline constexpr std::uint64_t kSmallStep = 512;

CUresult AllocateDevice(Driver& driver, Context& context, std::uint64_t size, CUdeviceptr& address);
CUresult AllocateManaged(Driver& driver, Context& context, std::uint64_t size, unsigned flags,
                         CUdeviceptr& address);

// Frees memory of AllocateDevice, AllocateManaged or a pool; INVALID_VALUE for any other. Waits for the work
// of the allocation's context first, as the real driver does.
CUresult FreeDevice(Driver& driver, CUdeviceptr address);

// Moves the managed memory in [address, address + size), which must lie within one allocation, to a device or
// to the host (nullptr); ignores other memory.
void MoveManaged(Driver& driver, std::uint64_t address, std::uint64_t size, Device* device);

// Maps memory at a new address as one block and one allocation. False when out of addresses. `reachable`:
// devices whose kernels reach it whatever access their contexts have, for kImported.
bool MapNew(Driver& driver, Context& context, MemoryKind kind, std::uint64_t size,
            std::shared_ptr<Physical> physical, unsigned flags, std::uint64_t& address,
            std::uint32_t reachable = 0);
// Removes a block and its addresses. Waits for operations that touch device memory.
void DropBlock(Driver& driver, std::uint64_t begin);

// Frees all memory that was allocated in the context.
void FreeAllOf(Driver& driver, Context& context);

}  // namespace gpuman::sim::cuda
