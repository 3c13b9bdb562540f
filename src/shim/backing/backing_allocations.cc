// Allocates backed memory: a large allocation has a region of its own, small allocations share slabs.
#include "shim/backing/backing.h"
#include "shim/backing/stream_memory.h"
#include "shim/libc/lock.h"
#include "shim/symbols/driver.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {
namespace {

using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

// Waits for the work of a context. A context that has ended has no work.
CUresult WaitForContext(std::uint64_t context) {
  const CUresult result = SynchronizeContext(context);
  return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? CUDA_SUCCESS
                                                                                           : result;
}

// Waits for the work that may use the memory, as cuMemFree does: of its context, and of contexts on other
// devices.
CUresult WaitForWork(BackingState& state, std::uint64_t context) {
  const CUresult result = WaitForContext(context);
  if (state.visible == 1 || result != CUDA_SUCCESS) return result;
  std::uint64_t others[kMaxDevices];
  unsigned count = 0;
  {
    const Locked lock(state.contexts);
    state.context.ForEach([&](std::uint64_t other, const Context&) {
      if (other != context && count < kMaxDevices) others[count++] = other;
    });
  }
  for (unsigned i = 0; i < count; ++i) WaitForContext(others[i]);
  return result;
}

// Waits for the work of all contexts: memory of a pool does not end with a context.
CUresult WaitForAllWork(BackingState& state) {
  std::uint64_t contexts[kMaxDevices];
  unsigned count = 0;
  {
    const Locked lock(state.contexts);
    state.context.ForEach([&](std::uint64_t context, const Context&) {
      if (count < kMaxDevices) contexts[count++] = context;
    });
  }
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < count && result == CUDA_SUCCESS; ++i) result = WaitForContext(contexts[i]);
  return result;
}

void GiveUp(BackingState& state, const Region& region) {
  Unshare(state, region);
  UnmapRegion(state, region);
  auto* const free = GPUMAN_REAL(cuMemAddressFree);
  if (free != nullptr) free(region.address, region.bytes);
}

// Makes a region with memory behind its addresses, and calls enter(region) with `books` held. Where that
// returns false, the region is given up.
template <typename Enter>
CUresult MakeRegion(BackingState& state, const AllocationTarget& where, std::uint64_t bytes, Enter enter,
                    unsigned pool = 0) {
  auto* const reserve = GPUMAN_REAL(cuMemAddressReserve);
  if (reserve == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  Region region{0, bytes, RoundUp(bytes, where.granule), where.context, where.device};
  if (region.bytes < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr address = 0;
  CUresult result = reserve(&address, region.bytes, 0, 0, 0);
  if (result != CUDA_SUCCESS) return result;
  region.address = address;
  region.pool = pool;
  region.readers = region.writers = DeviceBit(where.device);
  {
    const Locked lock(state.books);
    region.born = ++state.births;
  }
  result = MapRegion(state, region);
  if (result == CUDA_SUCCESS) {
    const Locked lock(state.books);
    if (!state.regions.Add(region)) {
      result = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (!enter(region)) {
      state.regions.Take(region.address, region);
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  if (result != CUDA_SUCCESS) {
    GiveUp(state, region);
    return result;
  }
  if (state.visible > 1) GiveReach(state, region.address);
  TellEvictable(state);
  return CUDA_SUCCESS;
}

// Returns the error of a context whose work has failed: such a context allocates nothing. The call spoils no
// capture (measured).
CUresult Health() {
  auto* const ask = GPUMAN_REAL(cuMemGetInfo_v2);
  std::size_t free = 0, total = 0;
  return ask == nullptr ? CUDA_ERROR_NOT_INITIALIZED : ask(&free, &total);
}

CUresult AllocateSmall(BackingState& state, const AllocationTarget& where, CUdeviceptr* pointer,
                       std::uint64_t bytes) {
  SlabAllocation small{};
  const auto allocate = [&] {
    if (!state.slabs.Allocate(where.context, where.device, bytes, small)) return false;
    *pointer = small.address;
    return true;
  };
  if (const CUresult health = Health(); health != CUDA_SUCCESS) return health;
  {
    const Locked lock(state.books);
    if (allocate()) return CUDA_SUCCESS;
  }
  return MakeRegion(state, where, Slabs::kBytes, [&](const Region& region) {
    if (!state.slabs.Add(region.address, region.context, region.device)) return false;
    return allocate();  // there is room: the slab is empty
  });
}

CUresult FreeSmall(BackingState& state, const FoundAllocation& found) {
  const CUresult waited = WaitForWork(state, found.region.context);
  if (waited != CUDA_SUCCESS) return waited;
  Region region{};
  {
    const Locked lock(state.books);
    const Region* const known = state.regions.Find(found.region.address);
    if (known == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const SlabAllocation small{found.region.address, found.region.size, found.number};
    switch (state.slabs.Free(known->address, small)) {
      case Slabs::Freed::kNone:
        return CUDA_ERROR_INVALID_VALUE;  // another thread has freed it meanwhile
      case Slabs::Freed::kSome:
        return CUDA_SUCCESS;
      case Slabs::Freed::kLast:
        break;
    }
    state.slabs.Drop(known->address);
    state.regions.Take(known->address, region);
  }
  GiveUp(state, region);
  TellEvictable(state);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult AllocateBacked(BackingState& state, const AllocationTarget& where, CUdeviceptr* pointer,
                        std::uint64_t bytes) {
  if (bytes < kMinBacked) return AllocateSmall(state, where, pointer, bytes);
  return MakeRegion(state, where, bytes, [&](const Region& region) {
    *pointer = region.address;
    return true;
  });
}

bool FreeBacked(BackingState& state, CUdeviceptr pointer, CUresult& result) {
  FoundAllocation found{};
  if (!FindBacked(state, pointer, found) || found.region.address != pointer) return false;
  if (found.region.pool != 0) {
    result = WaitForAllWork(state);
    if (result == CUDA_SUCCESS && !FreeOfPool(state, found.region.pool, pointer))
      result = CUDA_ERROR_INVALID_VALUE;
    return true;
  }
  if (found.number != 0) {
    result = FreeSmall(state, found);
    return true;
  }
  {
    const Locked lock(state.books);
    if (!state.regions.Take(pointer, found.region)) return false;
  }
  result = WaitForWork(state, found.region.context);
  if (result != CUDA_SUCCESS) {
    const Locked lock(state.books);
    state.regions.Add(found.region);  // there is memory for the entry: it was there before
    return true;
  }
  GiveUp(state, found.region);
  TellEvictable(state);
  return true;
}

void DropBackedOf(BackingState& state, std::uint64_t context) {
  bool any = false;
  for (Region region{};; any = true) {
    {
      const Locked lock(state.books);
      if (!state.regions.TakeOneOf(context, region)) break;
      state.slabs.Drop(region.address);
    }
    GiveUp(state, region);
  }
  if (any) TellEvictable(state);
}

bool FindBacked(BackingState& state, CUdeviceptr pointer, FoundAllocation& found) {
  found = {};
  if (!IsBacked(state)) return false;
  {
    const Locked lock(state.books);
    const Region* const known = state.regions.Find(pointer);
    if (known == nullptr || known->token != 0) return false;
    found.region = *known;
    found.slab = known->pool != 0 || state.slabs.Has(known->address);
    if (!found.slab) return true;
    SlabAllocation small{};
    if (known->pool == 0) {
      if (!state.slabs.Find(known->address, pointer, small)) return false;
      found.region.address = small.address;
      found.region.size = small.size;
      found.number = small.number;
      return true;
    }
  }
  return FindInPool(state, found.region, pointer, found);
}

CUresult MakeSegment(BackingState& state, const AllocationTarget& where, unsigned pool, std::uint64_t bytes,
                     std::uint64_t& address) {
  const auto enter = [&](const Region& region) {
    address = region.address;
    return true;
  };
  return MakeRegion(state, where, bytes, enter, pool);
}

void GiveUpSegment(BackingState& state, std::uint64_t address) {
  Region region{};
  {
    const Locked lock(state.books);
    if (!state.regions.Take(address, region)) return;
  }
  GiveUp(state, region);
  TellEvictable(state);
}

void OpenSegments(BackingState& state, unsigned pool, std::uint64_t readers, std::uint64_t writers) {
  for (std::uint64_t from = 0;;) {
    Region region{};
    {
      const Locked lock(state.books);
      for (std::size_t i = 0; i < state.regions.size() && region.bytes == 0; ++i) {
        const Region& one = state.regions.at(i);
        if (one.pool == pool && one.address > from) region = one;
      }
      if (region.bytes == 0) return;
      from = region.address;
    }
    region.readers |= readers;
    region.writers |= writers;
    if (GiveAccess(region) != CUDA_SUCCESS) continue;
    const Locked lock(state.books);
    state.regions.SetAccess(region.address, region.readers, region.writers);
  }
}

}  // namespace gpuman::shim
