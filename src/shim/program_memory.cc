#include "shim/program_memory.h"

#include "shim/backing.h"
#include "shim/driver.h"

namespace gpuman::shim {
namespace {

using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

// Memory with a use of its own (compressed, tiles) would not come back as such, nor would what was asked for
// to be exported other than by a descriptor be exported after it.
bool CanLeave(Guest& guest, const CUmemAllocationProp& prop, unsigned long long flags) {
  constexpr std::uint32_t kPassable = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return flags == 0 && prop.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop.location.id >= 0 &&
         prop.location.id < kMostDevices && (prop.requestedHandleTypes & ~kPassable) == 0 &&
         prop.win32HandleMetaData == nullptr && prop.allocFlags.compressionType == 0 &&
         prop.allocFlags.usage == 0 && IsBackedOn(guest, prop.location.id);
}

// For who holds the books, as what follows.
Region RegionOf(std::uint64_t token, const Made& made) {
  Region region{made.address, made.bytes, made.bytes, 0, made.device, made.born};
  region.token = token;
  region.direct = made.direct;
  return region;
}

// A region stands for the memory from now on.
void Offer(Guest& guest, std::uint64_t token, Made& made) {
  Backing* const backing = guest.handles.Insert(made.address);
  if (backing == nullptr) return;
  *backing = {made.handle, made.kept, Backing::kNone};
  made.region = guest.regions.Add(RegionOf(token, made));
  Backing ignored{};
  if (!made.region) guest.handles.Take(made.address, ignored);
}

void Recall(Guest& guest, Made& made) {
  Region region{};
  Backing backing{};
  guest.regions.Take(made.address, region);
  made.region = false;
  made.handle = 0;
  if (guest.handles.Take(made.address, backing)) {
    made.handle = backing.handle;
    made.kept = backing.kept;
    if (made.kept == Backing::kStuck) guest.stuck -= made.bytes;
  } else {
    // Only a process that its driver has failed goes on while it is away.
    guest.away -= made.bytes < guest.away ? made.bytes : guest.away;
  }
}

void Settle(Guest& guest, std::uint64_t token) {
  Made* const made = guest.made.Find(token);
  if (made == nullptr) return;
  const bool leaves = !made->stays && made->mappings == 1 && made->whole && made->handle != 0 &&
                      made->kept != Backing::kStuck;
  if (!made->region && leaves) Offer(guest, token, *made);
  if (made->region && !leaves) Recall(guest, *made);
}

// Without the books.
void End(Guest& guest, const Made& made) {
  auto* const release = GPUMAN_REAL(cuMemRelease);
  if (made.handle != 0 && release != nullptr) release(made.handle);
  if (made.kept > 0) Discard(guest, made.kept);
  if (made.kept == Backing::kOwn) return;
  const Locked lock(guest.books);
  guest.imported -= made.bytes;
}

}  // namespace

CUresult CreateForProgram(Guest& guest, ProgramHandle* handle, std::size_t size,
                          const CUmemAllocationProp& prop, unsigned long long flags) {
  auto* const real = GPUMAN_REAL(cuMemCreate);
  auto* const release = GPUMAN_REAL(cuMemRelease);
  if (!CanLeave(guest, prop, flags) || release == nullptr) return real(handle, size, &prop, flags);
  CUmemAllocationProp passable = prop;
  passable.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  ProgramHandle made = 0;
  const CUresult result = real(&made, size, &passable, flags);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return result;
  if (result != CUDA_SUCCESS) return real(handle, size, &prop, flags);
  StartAttendant(guest);
  const Locked lock(guest.books);
  const ProgramHandle token = guest.made.Add({.handle = made,
                                              .kept = Backing::kOwn,
                                              .device = prop.location.id,
                                              .bytes = size,
                                              .born = ++guest.births,
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

Held HeldBy(Guest& guest, ProgramHandle handle) {
  if (!MadeMemory::IsToken(handle)) return {handle, Backing::kOwn, UINT32_MAX, 0, false};
  const Locked lock(guest.books);
  const Made* const made = guest.made.Held(handle);
  if (made == nullptr) return {0, Backing::kOwn, 0, 0, true};
  const Backing* const backing = made->region ? guest.handles.Find(made->address) : nullptr;
  return {backing != nullptr ? backing->handle : made->handle,
          backing != nullptr ? backing->kept : made->kept, made->types, made->direct, true};
}

bool ReleaseHeld(Guest& guest, ProgramHandle handle, CUresult& result) {
  if (!MadeMemory::IsToken(handle)) return false;
  Made ended{};
  {
    const Locked lock(guest.books);
    Made* const made = guest.made.Held(handle);
    result = made != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (made != nullptr) --made->references;
    if (made == nullptr || !guest.made.TakeEnded(handle, ended)) return true;
  }
  End(guest, ended);
  return true;
}

void RetainHeld(Guest& guest, ProgramHandle& handle, CUdeviceptr address) {
  auto* const release = GPUMAN_REAL(cuMemRelease);
  if (!IsBacked(guest) || release == nullptr) return;
  ProgramHandle token = 0;
  {
    const Locked lock(guest.books);
    token = guest.made.TokenAt(address);
    Made* const made = guest.made.Find(token);
    if (made == nullptr) return;
    ++made->references;
  }
  release(handle);
  handle = token;
}

void MappedHeld(Guest& guest, CUdeviceptr address, std::size_t size, ProgramHandle handle) {
  if (!MadeMemory::IsToken(handle)) return;
  {
    const Locked lock(guest.books);
    guest.made.Mapped({address, handle, size});
    Settle(guest, handle);
  }
  TellEvictable(guest);
}

void StaysHeld(Guest& guest, ProgramHandle handle) {
  if (!MadeMemory::IsToken(handle)) return;
  {
    const Locked lock(guest.books);
    if (Made* const made = guest.made.Find(handle)) made->stays = true;
    Settle(guest, handle);
  }
  TellEvictable(guest);
}

void StaysAt(Guest& guest, CUdeviceptr address, std::size_t size) {
  if (!IsBacked(guest)) return;
  {
    const Locked lock(guest.books);
    for (std::size_t i = guest.regions.size(); i-- > 0;) {
      const Region region = guest.regions.at(i);
      const bool apart = region.address >= address ? region.address - address >= size
                                                   : address - region.address >= region.bytes;
      if (apart) continue;
      Made* const made = region.token != 0 ? guest.made.Find(region.token) : nullptr;
      if (made == nullptr) {
        PinRegion(guest, region);
        continue;
      }
      made->stays = true;
      Settle(guest, region.token);
    }
  }
  TellEvictable(guest);
}

std::uint32_t TypesAt(Guest& guest, CUdeviceptr address) {
  if (!IsBacked(guest)) return UINT32_MAX;
  const Locked lock(guest.books);
  const Made* const made = guest.made.Find(guest.made.TokenAt(address));
  return made != nullptr ? made->types : UINT32_MAX;
}

Unmapping::Unmapping(Guest& guest, CUdeviceptr address, std::size_t size) : guest_(guest) {
  if (!IsBacked(guest)) return;
  const Locked lock(guest.books);
  MadeMapping mapping{};
  for (std::size_t left = size; left != 0 && guest.made.TakeMapping(address, size, mapping);) {
    MadeMapping* const entry = taken_.Insert(mapping.address);
    Made* const made = guest.made.Find(mapping.token);
    if (made != nullptr && made->region) Recall(guest, *made);
    if (entry == nullptr) {
      // There is no memory to remember it by: it stays, and counts to the end.
      if (made != nullptr) made->stays = true;
      break;
    }
    *entry = mapping;
    left -= mapping.size < left ? mapping.size : left;
  }
}

void Unmapping::End(bool unmapped) {
  if (taken_.size() == 0) return;
  taken_.ForEach([&](std::uint64_t, const MadeMapping& mapping) {
    Made ended{};
    bool gone = false;
    {
      const Locked lock(guest_.books);
      if (unmapped)
        guest_.made.Unmapped(mapping);
      else
        guest_.made.PutBack(mapping);
      gone = guest_.made.TakeEnded(mapping.token, ended);
      if (!gone) Settle(guest_, mapping.token);
    }
    if (gone) shim::End(guest_, ended);
  });
  TellEvictable(guest_);
}

}  // namespace gpuman::shim
