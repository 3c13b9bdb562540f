#include "shim/backing.h"

#include "ledger/wire/orders.h"
#include "shim/driver.h"
#include "shim/paging.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // the vendor's names

enum : std::uint32_t { kNotKnown, kYes, kNo };

bool OneDeviceWithVirtualMemory() {
  auto* const count_devices = GPUMAN_REAL(cuDeviceGetCount);
  auto* const ask = GPUMAN_REAL(cuDeviceGetAttribute);
  int devices = 0, supported = 0, passes = 0;
  return count_devices != nullptr && ask != nullptr && count_devices(&devices) == CUDA_SUCCESS &&
         devices == 1 &&
         ask(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0) == CUDA_SUCCESS &&
         supported != 0 &&
         ask(&passes, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0) == CUDA_SUCCESS &&
         passes != 0;
}

// For who holds the books.
std::uint64_t Evictable(const Guest& guest) {
  if (wire::Load(guest.vault.broken) != 0) return 0;
  const std::uint64_t bytes = guest.regions.bytes(), not_so = guest.stuck + guest.away;
  return bytes > not_so ? bytes - not_so : 0;
}

// For who holds the books.
void Forget(Guest& guest, const Backing& backing, std::uint64_t bytes) {
  if (backing.kept == Backing::kStuck) guest.stuck -= bytes;
  if (backing.kept != Backing::kOwn) guest.imported -= bytes;
}

// As cuMemFree waits for the work of the allocation's context.
CUresult WaitForContext(std::uint64_t context) {
  auto* const push = GPUMAN_REAL(cuCtxPushCurrent_v2);
  auto* const pop = GPUMAN_REAL(cuCtxPopCurrent_v2);
  auto* const synchronize = GPUMAN_REAL(cuCtxSynchronize);
  if (push == nullptr || pop == nullptr || synchronize == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  CUresult result = push(reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(context)));
  if (result == CUDA_SUCCESS) {
    result = synchronize();
    CUcontext ignored = nullptr;
    pop(&ignored);
  }
  // One that is gone has no work.
  return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? CUDA_SUCCESS
                                                                                           : result;
}

void GiveUp(Guest& guest, const Region& region) {
  UnmapRegion(guest, region);
  auto* const free = GPUMAN_REAL(cuMemAddressFree);
  if (free != nullptr) free(region.address, region.bytes);
}

}  // namespace

CUresult GiveAccess(const Region& region) {
  auto* const set = GPUMAN_REAL(cuMemSetAccess);
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, region.device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return set == nullptr ? CUDA_ERROR_NOT_SUPPORTED : set(region.address, region.bytes, &access, 1);
}

std::uint64_t UnmapPiece(Guest& guest, const Piece& piece) {
  auto* const unmap = GPUMAN_REAL(cuMemUnmap);
  auto* const release = GPUMAN_REAL(cuMemRelease);
  Backing backing{};
  {
    const Locked lock(guest.books);
    const Backing* const known = guest.handles.Find(piece.address);
    if (known == nullptr) return 0;
    backing = *known;
  }
  if (unmap == nullptr || release == nullptr || unmap(piece.address, piece.bytes) != CUDA_SUCCESS) return 0;
  release(backing.handle);
  // The descriptor keeps the memory as well.
  if (backing.kept > 0) Discard(guest, backing.kept);
  const Locked lock(guest.books);
  guest.handles.Take(piece.address, backing);
  Forget(guest, backing, piece.bytes);
  return piece.bytes;
}

void TellImported(Guest& guest) {
  if (guest.phase.load(std::memory_order_acquire) != Phase::kJoined) return;
  const Locked lock(guest.books);
  const bool any = guest.imported != 0 || guest.foreign != 0;
  wire::Store(guest.ledger->slot[guest.slot].flags, any ? wire::kHoldsImported : 0);
}

void TellEvictable(Guest& guest) {
  {
    const Locked lock(guest.books);
    __atomic_store_n(&guest.ledger->slot[guest.slot].evictable, Evictable(guest), __ATOMIC_SEQ_CST);
  }
  TellImported(guest);
}

bool IsBacked(Guest& guest) {
  std::uint32_t known = wire::Load(guest.backing);
  if (known == kNotKnown && guest.phase.load(std::memory_order_acquire) == Phase::kJoined) {
    const bool evictable = MayBeEvicted() && wire::Load(guest.ledger->backing) ==
                                                 static_cast<std::uint32_t>(wire::Backing::kEvictable);
    known = evictable && !WantsManaged() && OneDeviceWithVirtualMemory() ? kYes : kNo;
    wire::Store(guest.backing, known);
  }
  return known == kYes;
}

CUresult MapRegion(Guest& guest, const Region& region, Backing::Mark mark) {
  auto* const create = GPUMAN_REAL(cuMemCreate);
  auto* const map = GPUMAN_REAL(cuMemMap);
  auto* const release = GPUMAN_REAL(cuMemRelease);
  if (create == nullptr || map == nullptr || release == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, region.device};
  for (unsigned i = 0; i < PiecesOf(region); ++i) {
    const Piece piece = PieceOf(region, i);
    {
      const Locked lock(guest.books);
      if (guest.handles.Find(piece.address) != nullptr) continue;
    }
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = create(&handle, piece.bytes, &prop, 0);
    if (result != CUDA_SUCCESS) return result;
    result = map(piece.address, piece.bytes, 0, handle, 0);
    Backing* entry = nullptr;
    if (result == CUDA_SUCCESS) {
      const Locked lock(guest.books);
      entry = guest.handles.Insert(piece.address);
      if (entry != nullptr) *entry = {handle, Backing::kOwn, mark};
    }
    if (entry != nullptr) continue;
    if (auto* const unmap = GPUMAN_REAL(cuMemUnmap); result == CUDA_SUCCESS && unmap != nullptr)
      unmap(piece.address, piece.bytes);
    release(handle);
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
  }
  return GiveAccess(region);
}

std::uint64_t UnmapRegion(Guest& guest, const Region& region) {
  std::uint64_t bytes = 0, away = 0;
  for (unsigned i = 0; i < PiecesOf(region); ++i) {
    const Piece piece = PieceOf(region, i);
    bool here = false;
    {
      const Locked lock(guest.books);
      here = guest.handles.Find(piece.address) != nullptr;
    }
    if (here)
      bytes += UnmapPiece(guest, piece);
    else
      away += piece.bytes;
  }
  // Only a process that its driver has failed frees what is away.
  const Locked lock(guest.books);
  guest.away -= away < guest.away ? away : guest.away;
  return bytes;
}

std::uint64_t BytesEvictable(Guest& guest) {
  const Locked lock(guest.books);
  return Evictable(guest);
}

CUresult AllocateBacked(Guest& guest, const Where& where, CUdeviceptr* pointer, std::uint64_t bytes) {
  auto* const reserve = GPUMAN_REAL(cuMemAddressReserve);
  if (reserve == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  StartAttendant(guest);
  Region region{0, bytes, RoundUp(bytes, where.granule), where.context, where.device, 0};
  if (region.bytes < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr address = 0;
  if (reserve(&address, region.bytes, 0, 0, 0) != CUDA_SUCCESS) return CUDA_ERROR_OUT_OF_MEMORY;
  region.address = address;
  {
    const Locked lock(guest.books);
    region.born = ++guest.births;
  }
  CUresult result = MapRegion(guest, region);
  if (result == CUDA_SUCCESS) {
    const Locked lock(guest.books);
    if (!guest.regions.Add(region)) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) {
    GiveUp(guest, region);
    return result;
  }
  *pointer = address;
  TellEvictable(guest);
  return CUDA_SUCCESS;
}

bool FreeBacked(Guest& guest, CUdeviceptr pointer, CUresult& result) {
  Region region{};
  if (!IsBacked(guest)) return false;
  {
    const Locked lock(guest.books);
    if (!guest.regions.Take(pointer, region)) return false;
  }
  result = WaitForContext(region.context);
  if (result != CUDA_SUCCESS) {
    const Locked lock(guest.books);
    guest.regions.Add(region);  // there is room: it was there
    return true;
  }
  GiveUp(guest, region);
  TellEvictable(guest);
  return true;
}

void DropBackedOf(Guest& guest, std::uint64_t context) {
  bool any = false;
  for (Region region{};; any = true) {
    {
      const Locked lock(guest.books);
      if (!guest.regions.TakeOneOf(context, region)) break;
    }
    GiveUp(guest, region);
  }
  if (any) TellEvictable(guest);
}

bool FindBacked(Guest& guest, CUdeviceptr pointer, Region& region) {
  if (!IsBacked(guest)) return false;
  const Locked lock(guest.books);
  const Region* const found = guest.regions.Find(pointer);
  if (found == nullptr) return false;
  region = *found;
  return true;
}

}  // namespace gpuman::shim
