#include "shim/backing/backing.h"

#include <fcntl.h>

#include "ledger/wire/orders.h"
#include "shim/backing/paging.h"
#include "shim/libc/lock.h"
#include "shim/symbols/driver.h"
#include "shim/symbols/evictable.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

enum : std::uint32_t { kNotKnown, kYes, kNo };

bool HasVirtualMemory(int device) {
  auto* const ask = GPUMAN_REAL(cuDeviceGetAttribute);
  int supported = 0, passes = 0;
  return ask != nullptr &&
         ask(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) == CUDA_SUCCESS &&
         supported != 0 &&
         ask(&passes, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device) ==
             CUDA_SUCCESS &&
         passes != 0;
}

// Returns whether all devices have the virtual memory calls, and reach each other. Where one does not reach
// another, the driver has to arrange the copies between them, and it does so only for plain memory.
bool DevicesWithVirtualMemory(int& devices) {
  auto* const count_devices = GPUMAN_REAL(cuDeviceGetCount);
  auto* const reaches = GPUMAN_REAL(cuDeviceCanAccessPeer);
  if (count_devices == nullptr || count_devices(&devices) != CUDA_SUCCESS || devices < 1 ||
      devices > kMaxDevices)
    return false;
  for (int device = 0; device < devices; ++device) {
    if (!HasVirtualMemory(device)) return false;
    for (int other = 0; other < devices; ++other) {
      int can = 0;
      if (other != device && (reaches == nullptr || reaches(&can, device, other) != CUDA_SUCCESS || can == 0))
        return false;
    }
  }
  return true;
}

// The caller holds `books`.
std::uint64_t EvictableOn(const BackingState& state, int device) {
  if (wire::Load(state.descriptor_store.broken) != 0) return 0;
  const std::uint64_t bytes = state.regions.BytesOn(device);
  const std::uint64_t not_so = state.stuck[device] + state.away[device];
  return bytes > not_so ? bytes - not_so : 0;
}

// The caller holds `books`.
void Forget(BackingState& state, const PieceBacking& backing, const Piece& piece) {
  if (backing.kept == PieceBacking::kStuck || backing.stays) state.stuck[piece.device] -= piece.bytes;
  if (backing.kept != PieceBacking::kOwn) state.imported -= piece.bytes;
}

}  // namespace

CUresult GiveAccess(const Region& region) {
  auto* const set = GPUMAN_REAL(cuMemSetAccess);
  CUmemAccessDesc access[kMaxDevices];
  std::size_t count = 0;
  for (int device = 0; device < kMaxDevices; ++device) {
    const bool writes = (region.writers & DeviceBit(device)) != 0;
    if (!writes && (region.readers & DeviceBit(device)) == 0) continue;
    access[count].location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access[count++].flags = writes ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  }
  if (set == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return count == 0 ? CUDA_SUCCESS : set(region.address, region.bytes, access, count);
}

std::uint64_t UnmapPiece(BackingState& state, const Piece& piece) {
  auto* const unmap = GPUMAN_REAL(cuMemUnmap);
  auto* const release = GPUMAN_REAL(cuMemRelease);
  PieceBacking backing{};
  {
    const Locked lock(state.books);
    const PieceBacking* const known = state.handles.Find(piece.address);
    if (known == nullptr) return 0;
    backing = *known;
  }
  if (unmap == nullptr || release == nullptr || unmap(piece.address, piece.bytes) != CUDA_SUCCESS) return 0;
  release(backing.handle);
  // The descriptor keeps the memory alive as well.
  if (backing.kept > 0) CloseDescriptor(state.descriptor_store, backing.kept);
  const Locked lock(state.books);
  state.handles.Take(piece.address, backing);
  Forget(state, backing, piece);
  return piece.bytes;
}

void TellImported(BackingState& state) {
  if (!IsJoined(state)) return;
  const Locked lock(state.books);
  const bool others = state.foreign != 0 || wire::Load(state.ipc.exports) != 0;
  const bool shares = others || wire::Load(state.shares) != 0;
  wire::Store(state.ledger->slot[state.slot].flags,
              wire::kNotifiesAnswers | wire::kTakesCallGrants | wire::kFetches |
                  (others || state.imported != 0 ? wire::kHoldsImported : 0) | (shares ? wire::kShares : 0));
}

void TellShares(BackingState& state) {
  if (wire::Load(state.shares) != 0) return;
  wire::Store(state.shares, 1);
  TellImported(state);
}

void TellAfterJoining(BackingState& state) {
  TellImported(state);
  TellManaged(state);
}

void TellEvictable(BackingState& state) {
  if (!IsJoined(state)) return;
  const std::uint32_t home = wire::Load(state.first_home);
  const int gpu = home != 0 ? LedgerGpuOf(state, static_cast<int>(home) - 1) : -1;
  {
    const Locked lock(state.books);
    wire::Slot& slot = state.ledger->slot[state.slot];
    wire::Store(slot.home, static_cast<std::uint32_t>(gpu + 1));
    ForEachHome(state, [&](int device) {
      const std::uint32_t entry = HomeEntryOf(state, device);
      wire::Store(entry != 0 ? state.ledger->home[entry - 1].evictable : slot.evictable,
                  EvictableOn(state, device));
    });
  }
  TellImported(state);
}

void TellEvicted(BackingState& state) {
  if (!IsJoined(state)) return;
  const Locked lock(state.books);
  ForEachHome(state, [&](int device) {
    const std::uint32_t entry = HomeEntryOf(state, device);
    wire::Store(entry != 0 ? state.ledger->home[entry - 1].evicted : state.ledger->slot[state.slot].evicted,
                state.away[device]);
  });
}

bool IsBacked(BackingState& state) {
  std::uint32_t known = wire::Load(state.backing);
  if (known == kNotKnown) {
    // Where no daemon has answered yet, the variable decides: the daemon that set it will want backed memory.
    const bool joined = IsJoined(state);
    const bool evictable =
        MayBeEvicted() && (!joined || wire::Load(state.ledger->backing) ==
                                          static_cast<std::uint32_t>(wire::AllocationMode::kEvictable));
    int devices = 0;
    known = evictable && !WantsManaged() && DevicesWithVirtualMemory(devices) ? kYes : kNo;
    state.visible = devices;
    wire::Store(state.backing, known);
  }
  return known == kYes;
}

bool IsBackedOn(BackingState& state, int device) {
  return IsBacked(state) && (state.visible == 1 || TakeHome(state, device));
}

void GiveReach(BackingState& state, std::uint64_t address) {
  Region region{};
  {
    const Locked lock(state.books);
    const Region* const known = state.regions.Find(address);
    if (known == nullptr || known->token != 0 || (state.reach & ~known->readers) == 0) return;
    region = *known;
    region.readers = region.writers = region.readers | state.reach;
  }
  if (GiveAccess(region) != CUDA_SUCCESS) return;  // then those devices cannot copy from the region
  const Locked lock(state.books);
  state.regions.SetAccess(region.address, region.readers, region.writers);
}

void ReachFrom(BackingState& state, int device) {
  if (device < 0 || device >= kMaxDevices) return;
  {
    const Locked lock(state.books);
    if ((state.reach & DeviceBit(device)) != 0) return;
    state.reach |= DeviceBit(device);
  }
  if (!IsBacked(state) || state.visible == 1) return;
  // Another thread that adds a region meanwhile has seen the new bit.
  for (std::uint64_t from = 0;;) {
    {
      const Locked lock(state.books);
      const Region* next = nullptr;
      for (std::size_t i = 0; i < state.regions.size() && next == nullptr; ++i) {
        if (state.regions.at(i).address > from) next = &state.regions.at(i);
      }
      if (next == nullptr) return;
      from = next->address;
    }
    GiveReach(state, from);
  }
}

CUresult MapRegion(BackingState& state, const Region& region, PieceBacking::Mark mark) {
  auto* const create = GPUMAN_REAL(cuMemCreate);
  auto* const map = GPUMAN_REAL(cuMemMap);
  auto* const release = GPUMAN_REAL(cuMemRelease);
  if (create == nullptr || map == nullptr || release == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, region.device};
  prop.allocFlags.gpuDirectRDMACapable = region.direct;
  for (unsigned i = 0; i < PiecesOf(region); ++i) {
    const Piece piece = PieceOf(region, i);
    {
      const Locked lock(state.books);
      if (state.handles.Find(piece.address) != nullptr) continue;
    }
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = create(&handle, piece.bytes, &prop, 0);
    if (result != CUDA_SUCCESS) return result;
    result = map(piece.address, piece.bytes, 0, handle, 0);
    PieceBacking* entry = nullptr;
    if (result == CUDA_SUCCESS) {
      const Locked lock(state.books);
      entry = state.handles.Insert(piece.address);
      if (entry != nullptr) *entry = {handle, PieceBacking::kOwn, mark};
    }
    if (entry != nullptr) continue;
    if (auto* const unmap = GPUMAN_REAL(cuMemUnmap); result == CUDA_SUCCESS && unmap != nullptr)
      unmap(piece.address, piece.bytes);
    release(handle);
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
  }
  return GiveAccess(region);
}

std::uint64_t UnmapRegion(BackingState& state, const Region& region) {
  std::uint64_t bytes = 0, away = 0;
  for (unsigned i = 0; i < PiecesOf(region); ++i) {
    const Piece piece = PieceOf(region, i);
    bool here = false;
    {
      const Locked lock(state.books);
      here = state.handles.Find(piece.address) != nullptr;
    }
    if (here)
      bytes += UnmapPiece(state, piece);
    else
      away += piece.bytes;
  }
  // Only a process whose driver has failed frees evicted memory.
  const Locked lock(state.books);
  std::uint64_t& gone = state.away[region.device];
  gone -= away < gone ? away : gone;
  return bytes;
}

std::uint64_t BytesEvictable(BackingState& state, int device) {
  const Locked lock(state.books);
  return EvictableOn(state, device);
}

void PinRegion(BackingState& state, const Region& region) {
  for (unsigned i = 0; i < PiecesOf(region); ++i) {
    const Piece piece = PieceOf(region, i);
    PieceBacking* const known = state.handles.Find(piece.address);
    if (known == nullptr || known->stays) continue;
    if (known->kept != PieceBacking::kStuck) state.stuck[piece.device] += piece.bytes;
    known->stays = true;
  }
}

int DescriptorOf(BackingState& state, const Piece& piece, CUresult& result) {
  PieceBacking backing{};
  {
    const Locked lock(state.books);
    const PieceBacking* const known = state.handles.Find(piece.address);
    if (known == nullptr || known->kept == PieceBacking::kStuck) return -1;
    backing = *known;
  }
  if (backing.kept > 0) {
    // The driver exports only memory that it made for this process (measured).
    const int duplicate = DuplicateDescriptor(state.descriptor_store, backing.kept);
    if (duplicate >= 0) return duplicate;
    const Locked lock(state.books);
    if (PieceBacking* const known = state.handles.Find(piece.address)) {
      known->kept = PieceBacking::kStuck;
      known->mark = PieceBacking::kNone;
      state.stuck[piece.device] += piece.bytes;
    }
    return -1;
  }
  auto* const pass = GPUMAN_REAL(cuMemExportToShareableHandle);
  int descriptor = -1;
  result = pass == nullptr ? CUDA_ERROR_NOT_SUPPORTED
                           : pass(&descriptor, backing.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) return -1;
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return descriptor;
}

}  // namespace gpuman::shim
