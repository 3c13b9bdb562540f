#include "shim/backing/program_memory.h"

#include "shim/backing/backing.h"
#include "shim/libc/lock.h"
#include "shim/symbols/driver.h"

namespace gpuman::shim {
namespace {

using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

// Returns whether such memory can leave. When it came back, memory with a use of its own (compressed, tiles)
// would have lost that use, and memory that is to be exported otherwise than by a descriptor could not be.
bool CanLeave(BackingState& state, const CUmemAllocationProp& prop, unsigned long long flags) {
  constexpr std::uint32_t kPassable = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return flags == 0 && prop.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop.location.id >= 0 &&
         prop.location.id < kMaxDevices && (prop.requestedHandleTypes & ~kPassable) == 0 &&
         prop.win32HandleMetaData == nullptr && prop.allocFlags.compressionType == 0 &&
         prop.allocFlags.usage == 0 && IsBackedOn(state, prop.location.id);
}

// The caller holds `books`, also for the next functions.
Region RegionOf(std::uint64_t token, const TokenAllocation& made) {
  Region region{made.address, made.bytes, made.bytes, 0, made.device, made.born};
  region.token = token;
  region.direct = made.direct;
  return region;
}

// A region stands for the memory from now on.
void Offer(BackingState& state, std::uint64_t token, TokenAllocation& made) {
  PieceBacking* const backing = state.handles.Insert(made.address);
  if (backing == nullptr) return;
  *backing = {made.handle, made.kept, PieceBacking::kNone};
  made.region = state.regions.Add(RegionOf(token, made));
  PieceBacking ignored{};
  if (!made.region) state.handles.Take(made.address, ignored);
}

void Recall(BackingState& state, TokenAllocation& made) {
  Region region{};
  PieceBacking backing{};
  state.regions.Take(made.address, region);
  made.region = false;
  made.handle = 0;
  if (state.handles.Take(made.address, backing)) {
    made.handle = backing.handle;
    made.kept = backing.kept;
    if (made.kept == PieceBacking::kStuck) state.stuck[made.device] -= made.bytes;
  } else {
    // Only a process whose driver has failed goes on while its memory is evicted.
    std::uint64_t& away = state.away[made.device];
    away -= made.bytes < away ? made.bytes : away;
  }
}

void UpdateEvictable(BackingState& state, std::uint64_t token) {
  TokenAllocation* const made = state.made.Find(token);
  if (made == nullptr) return;
  const bool leaves = !made->stays && made->mappings == 1 && made->whole && made->handle != 0 &&
                      made->kept != PieceBacking::kStuck;
  if (!made->region && leaves) Offer(state, token, *made);
  if (made->region && !leaves) Recall(state, *made);
}

// The caller does not hold `books`.
void End(BackingState& state, const TokenAllocation& made) {
  auto* const release = GPUMAN_REAL(cuMemRelease);
  if (made.handle != 0 && release != nullptr) release(made.handle);
  if (made.kept > 0) CloseDescriptor(state.descriptor_store, made.kept);
  if (made.kept == PieceBacking::kOwn) return;
  const Locked lock(state.books);
  state.imported -= made.bytes;
}

}  // namespace

CUresult CreateForProgram(BackingState& state, ProgramHandle* handle, std::size_t size,
                          const CUmemAllocationProp& prop, unsigned long long flags) {
  auto* const real = GPUMAN_REAL(cuMemCreate);
  auto* const release = GPUMAN_REAL(cuMemRelease);
  if (!CanLeave(state, prop, flags) || release == nullptr) return real(handle, size, &prop, flags);
  CUmemAllocationProp passable = prop;
  passable.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  ProgramHandle made = 0;
  const CUresult result = real(&made, size, &passable, flags);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return result;
  if (result != CUDA_SUCCESS) return real(handle, size, &prop, flags);
  const Locked lock(state.books);
  const ProgramHandle token = state.made.Add({.handle = made,
                                              .kept = PieceBacking::kOwn,
                                              .device = prop.location.id,
                                              .bytes = size,
                                              .born = ++state.births,
                                              .references = 1,
                                              .mappings = 0,
                                              .address = 0,
                                              .types = prop.requestedHandleTypes,
                                              .direct = prop.allocFlags.gpuDirectRDMACapable,
                                              .whole = false,
                                              .stays = false,
                                              .region = false});
  *handle = token != 0 ? token : made;
  return CUDA_SUCCESS;
}

HandleInfo InfoOf(BackingState& state, ProgramHandle handle) {
  if (!MemoryTokenTable::IsToken(handle)) return {handle, PieceBacking::kOwn, UINT32_MAX, 0, false};
  const Locked lock(state.books);
  const TokenAllocation* const made = state.made.Held(handle);
  if (made == nullptr) return {0, PieceBacking::kOwn, 0, 0, true};
  const PieceBacking* const backing = made->region ? state.handles.Find(made->address) : nullptr;
  return {backing != nullptr ? backing->handle : made->handle,
          backing != nullptr ? backing->kept : made->kept, made->types, made->direct, true};
}

bool ReleaseHeld(BackingState& state, ProgramHandle handle, CUresult& result) {
  if (!MemoryTokenTable::IsToken(handle)) return false;
  TokenAllocation ended{};
  {
    const Locked lock(state.books);
    TokenAllocation* const made = state.made.Held(handle);
    result = made != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (made != nullptr) --made->references;
    if (made == nullptr || !state.made.TakeEnded(handle, ended)) return true;
  }
  End(state, ended);
  return true;
}

void RetainHeld(BackingState& state, ProgramHandle& handle, CUdeviceptr address) {
  auto* const release = GPUMAN_REAL(cuMemRelease);
  if (!IsBacked(state) || release == nullptr) return;
  ProgramHandle token = 0;
  {
    const Locked lock(state.books);
    token = state.made.TokenAt(address);
    TokenAllocation* const made = state.made.Find(token);
    if (made == nullptr) return;
    ++made->references;
  }
  release(handle);
  handle = token;
}

void MappedHeld(BackingState& state, CUdeviceptr address, std::size_t size, ProgramHandle handle) {
  if (!MemoryTokenTable::IsToken(handle)) return;
  {
    const Locked lock(state.books);
    state.made.Mapped({address, handle, size});
    UpdateEvictable(state, handle);
  }
  TellEvictable(state);
}

void StaysHeld(BackingState& state, ProgramHandle handle) {
  if (!MemoryTokenTable::IsToken(handle)) return;
  {
    const Locked lock(state.books);
    if (TokenAllocation* const made = state.made.Find(handle)) made->stays = true;
    UpdateEvictable(state, handle);
  }
  TellEvictable(state);
}

void StaysAt(BackingState& state, CUdeviceptr address, std::size_t size) {
  if (!IsBacked(state)) return;
  {
    const Locked lock(state.books);
    for (std::size_t i = state.regions.size(); i-- > 0;) {
      const Region region = state.regions.at(i);
      const bool apart = region.address >= address ? region.address - address >= size
                                                   : address - region.address >= region.bytes;
      if (apart) continue;
      TokenAllocation* const made = region.token != 0 ? state.made.Find(region.token) : nullptr;
      if (made == nullptr) {
        PinRegion(state, region);
        continue;
      }
      made->stays = true;
      UpdateEvictable(state, region.token);
    }
  }
  TellEvictable(state);
}

std::uint32_t TypesAt(BackingState& state, CUdeviceptr address) {
  if (!IsBacked(state)) return UINT32_MAX;
  const Locked lock(state.books);
  const TokenAllocation* const made = state.made.Find(state.made.TokenAt(address));
  return made != nullptr ? made->types : UINT32_MAX;
}

Unmapping::Unmapping(BackingState& state, CUdeviceptr address, std::size_t size) : state_(state) {
  if (!IsBacked(state)) return;
  const Locked lock(state.books);
  TokenMapping mapping{};
  for (std::size_t left = size; left != 0 && state.made.TakeMapping(address, size, mapping);) {
    TokenMapping* const entry = taken_.Insert(mapping.address);
    TokenAllocation* const made = state.made.Find(mapping.token);
    if (made != nullptr && made->region) Recall(state, *made);
    if (entry == nullptr) {
      // There is no memory for the entry: the program's memory stays on the device, and counts for ever.
      if (made != nullptr) made->stays = true;
      break;
    }
    *entry = mapping;
    left -= mapping.size < left ? mapping.size : left;
  }
}

void Unmapping::End(bool unmapped) {
  if (taken_.size() == 0) return;
  taken_.ForEach([&](std::uint64_t, const TokenMapping& mapping) {
    TokenAllocation ended{};
    bool gone = false;
    {
      const Locked lock(state_.books);
      if (unmapped)
        state_.made.Unmapped(mapping);
      else
        state_.made.PutBack(mapping);
      gone = state_.made.TakeEnded(mapping.token, ended);
      if (!gone) UpdateEvictable(state_, mapping.token);
    }
    if (gone) shim::End(state_, ended);
  });
  TellEvictable(state_);
}

}  // namespace gpuman::shim
