#include "shim/backing.h"

#include "ledger/wire/orders.h"
#include "shim/driver.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // the vendor's names

enum : std::uint32_t { kNotKnown, kYes, kNo };

bool OneDeviceWithVirtualMemory() {
  auto* const count_devices = GPUMAN_REAL(cuDeviceGetCount);
  auto* const ask = GPUMAN_REAL(cuDeviceGetAttribute);
  int devices = 0, supported = 0;
  return count_devices != nullptr && ask != nullptr && count_devices(&devices) == CUDA_SUCCESS &&
         devices == 1 &&
         ask(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0) == CUDA_SUCCESS &&
         supported != 0;
}

// What the daemon reads of it, and a wink to the attendant where host memory has to follow.
void TellBytes(Guest& guest) {
  wire::Slot& slot = guest.ledger->slot[guest.slot];
  std::uint64_t bytes = 0;
  {
    const Locked lock(guest.books);
    bytes = guest.regions.bytes();
    __atomic_store_n(&slot.evictable, bytes, __ATOMIC_SEQ_CST);
  }
  const std::uint64_t ready = __atomic_load_n(&guest.arena.ready, __ATOMIC_RELAXED);
  const bool follows = bytes <= ready && ready <= bytes + 2 * kArenaSlack;
  if (!follows && wire::Load(guest.attendant.dozing) != 0) wire::WakeAll(slot.order);
}

CUresult Access(const Region& region) {
  auto* const set = GPUMAN_REAL(cuMemSetAccess);
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, region.device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return set == nullptr ? CUDA_ERROR_NOT_SUPPORTED : set(region.address, region.bytes, &access, 1);
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

bool IsBacked(Guest& guest) {
  std::uint32_t known = wire::Load(guest.backing);
  if (known == kNotKnown && guest.phase.load(std::memory_order_acquire) == Phase::kJoined) {
    const bool evictable = MayBeEvicted() && wire::Load(guest.ledger->backing) ==
                                                 static_cast<std::uint32_t>(wire::Backing::kEvictable);
    known = evictable && OneDeviceWithVirtualMemory() ? kYes : kNo;
    wire::Store(guest.backing, known);
  }
  return known == kYes;
}

CUresult MapRegion(Guest& guest, const Region& region) {
  auto* const create = GPUMAN_REAL(cuMemCreate);
  auto* const map = GPUMAN_REAL(cuMemMap);
  auto* const release = GPUMAN_REAL(cuMemRelease);
  if (create == nullptr || map == nullptr || release == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
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
    std::uint64_t* entry = nullptr;
    if (result == CUDA_SUCCESS) {
      const Locked lock(guest.books);
      entry = guest.handles.Insert(piece.address);
      if (entry != nullptr) *entry = handle;
    }
    if (entry != nullptr) continue;
    if (auto* const unmap = GPUMAN_REAL(cuMemUnmap); result == CUDA_SUCCESS && unmap != nullptr)
      unmap(piece.address, piece.bytes);
    release(handle);
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
  }
  return Access(region);
}

std::uint64_t UnmapRegion(Guest& guest, const Region& region) {
  auto* const unmap = GPUMAN_REAL(cuMemUnmap);
  auto* const release = GPUMAN_REAL(cuMemRelease);
  if (unmap == nullptr || release == nullptr) return 0;
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < PiecesOf(region); ++i) {
    const Piece piece = PieceOf(region, i);
    std::uint64_t handle = 0;
    {
      const Locked lock(guest.books);
      const std::uint64_t* const known = guest.handles.Find(piece.address);
      if (known == nullptr) continue;
      handle = *known;
    }
    if (unmap(piece.address, piece.bytes) != CUDA_SUCCESS) continue;
    release(handle);
    bytes += piece.bytes;
    const Locked lock(guest.books);
    guest.handles.Take(piece.address, handle);
  }
  return bytes;
}

CUresult AllocateBacked(Guest& guest, const Where& where, CUdeviceptr* pointer, std::uint64_t bytes) {
  auto* const reserve = GPUMAN_REAL(cuMemAddressReserve);
  if (reserve == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  StartAttendant(guest);
  Region region{0, bytes, RoundUp(bytes, where.granule), where.context, where.device};
  if (region.bytes < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr address = 0;
  if (reserve(&address, region.bytes, 0, 0, 0) != CUDA_SUCCESS) return CUDA_ERROR_OUT_OF_MEMORY;
  region.address = address;
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
  TellBytes(guest);
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
  TellBytes(guest);
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
  if (any) TellBytes(guest);
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
