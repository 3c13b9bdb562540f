#include "shim/backing.h"

#include "ledger/wire/orders.h"
#include "shim/driver.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // the vendor's names

enum : std::uint32_t { kNotKnown, kYes, kNo };

bool OneDeviceWithVirtualMemory(int& devices) {
  auto* const count_devices = GPUMAN_REAL(cuDeviceGetCount);
  auto* const ask = GPUMAN_REAL(cuDeviceGetAttribute);
  int supported = 0, passes = 0;
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
  if (backing.kept == Backing::kStuck || backing.stays) guest.stuck -= bytes;
  if (backing.kept != Backing::kOwn) guest.imported -= bytes;
}

}  // namespace

CUresult GiveAccess(const Region& region) {
  auto* const set = GPUMAN_REAL(cuMemSetAccess);
  CUmemAccessDesc access[kMostDevices];
  std::size_t count = 0;
  for (int device = 0; device < kMostDevices; ++device) {
    const bool writes = (region.writers & DeviceBit(device)) != 0;
    if (!writes && (region.readers & DeviceBit(device)) == 0) continue;
    access[count].location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access[count++].flags = writes ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  }
  if (set == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return count == 0 ? CUDA_SUCCESS : set(region.address, region.bytes, access, count);
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
    int devices = 0;
    known = evictable && OneDeviceWithVirtualMemory(devices) ? kYes : kNo;
    guest.visible = devices;
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
  prop.allocFlags.gpuDirectRDMACapable = region.direct;
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

void PinRegion(Guest& guest, const Region& region) {
  for (unsigned i = 0; i < PiecesOf(region); ++i) {
    const Piece piece = PieceOf(region, i);
    Backing* const known = guest.handles.Find(piece.address);
    if (known == nullptr || known->stays) continue;
    if (known->kept != Backing::kStuck) guest.stuck += piece.bytes;
    known->stays = true;
  }
}

}  // namespace gpuman::shim
