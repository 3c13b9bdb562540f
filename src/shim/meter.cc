#include "shim/meter.h"

#include <cstring>

#include "ledger/wire/books.h"
#include "ledger/wire/slot_lock.h"
#include "shim/driver.h"
#include "shim/pools.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

constexpr std::uint64_t kUsualGranule = std::uint64_t{2} << 20;  // measured; where the driver does not tell

std::uint64_t AskGranule(int device) {
  auto* const ask = GPUMAN_REAL(cuMemGetAllocationGranularity);
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  std::size_t granule = 0;
  if (ask == nullptr || ask(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
      granule == 0)
    return kUsualGranule;
  return RoundUp(granule, wire::kUnit);
}

// For who holds guest.meter.
void FindInLedger(Guest& guest, Device& device) {
  if (!device.known || device.in_ledger || guest.ledger == nullptr) return;
  const int gpu = wire::FindGpu(*guest.ledger, device.uuid);
  if (gpu < 0) return;
  device.gpu = static_cast<unsigned>(gpu);
  device.in_ledger = true;
  if (device.held != 0) wire::Charge(*guest.ledger, device.gpu, guest.slot, device.held);
}

// GPUs may have come into the ledger. For who holds guest.meter.
void FollowChanges(Guest& guest) {
  if (guest.ledger == nullptr) return;
  const std::uint32_t changes = __atomic_load_n(&guest.ledger->changes, __ATOMIC_ACQUIRE);
  if (changes == guest.changes) return;
  guest.changes = changes;
  for (Device& device : guest.devices) FindInLedger(guest, device);
}

Device* Known(Guest& guest, int ordinal) {
  if (ordinal < 0 || ordinal >= kMostDevices) return nullptr;
  Device& device = guest.devices[ordinal];
  if (__atomic_load_n(&device.known, __ATOMIC_ACQUIRE)) return &device;
  CUuuid uuid{};
  auto* const newer = GPUMAN_REAL(cuDeviceGetUuid_v2);
  auto* const older = GPUMAN_REAL(cuDeviceGetUuid);
  if (newer != nullptr ? newer(&uuid, ordinal) != CUDA_SUCCESS
                       : older == nullptr || older(&uuid, ordinal) != CUDA_SUCCESS)
    return nullptr;
  const std::uint64_t granule = AskGranule(ordinal);
  const Locked lock(guest.meter);
  if (device.known) return &device;
  std::memcpy(device.uuid, uuid.bytes, sizeof device.uuid);
  device.granule = granule;
  __atomic_store_n(&device.known, true, __ATOMIC_RELEASE);
  FindInLedger(guest, device);
  return &device;
}

bool TryReserve(Guest& guest, Device& device, std::uint64_t bytes) {
  const Locked lock(guest.meter);
  FollowChanges(guest);
  // An overwritten ledger stops nobody: the guard still counts.
  if (device.in_ledger &&
      wire::Reserve(*guest.ledger, device.gpu, guest.slot, bytes) == wire::Outcome::kRefused)
    return false;
  device.held += bytes;
  return true;
}

// Gives back what processes held that have ended. Their locks went with them.
void ReclaimOthers(Guest& guest) {
  const Locked lock(guest.meter);
  if (guest.ledger == nullptr || !IsStill(guest.file)) return;
  const int file = guest.file.descriptor;
  for (unsigned slot = 0; slot < wire::kSlots; ++slot) {
    if (slot == guest.slot || __atomic_load_n(&guest.ledger->slot[slot].pid, __ATOMIC_ACQUIRE) == 0) continue;
    if (!wire::LockSlot(file, slot)) continue;
    wire::Clear(*guest.ledger, slot);
    wire::UnlockSlot(file, slot);
  }
}

Told Tell(Guest& guest, bool in_ledger, unsigned gpu) {
  if (!in_ledger) return {UINT64_MAX, 0};
  const wire::Gpu& entry = guest.ledger->gpu[gpu];
  return {wire::Load(entry.limit), wire::TotalOf(*guest.ledger, gpu) + wire::Load(entry.outside)};
}

}  // namespace

void Join(Guest& guest, const Place& place) {
  const Locked lock(guest.meter);
  guest.file = Keep(place.file);
  guest.slot = place.slot;
  guest.ledger = place.ledger;
  for (Device& device : guest.devices) FindInLedger(guest, device);
}

bool CurrentWhere(Guest& guest, Where& where) {
  auto* const get_device = GPUMAN_REAL(cuCtxGetDevice);
  auto* const get_context = GPUMAN_REAL(cuCtxGetCurrent);
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (get_device == nullptr || get_context == nullptr || get_device(&device) != CUDA_SUCCESS ||
      get_context(&context) != CUDA_SUCCESS)
    return false;
  where = {device, reinterpret_cast<std::uintptr_t>(context), GranuleOf(guest, device)};
  return where.granule != 0;
}

std::uint64_t GranuleOf(Guest& guest, int ordinal) {
  const Device* const device = Known(guest, ordinal);
  return device != nullptr ? device->granule : 0;
}

int LedgerGpuOf(Guest& guest, int ordinal) {
  const Device* const device = Known(guest, ordinal);
  const Locked lock(guest.meter);
  return device != nullptr && device->in_ledger ? static_cast<int>(device->gpu) : -1;
}

bool ReserveAtOnce(Guest& guest, int ordinal, std::uint64_t bytes) {
  Device* const device = Known(guest, ordinal);
  return device == nullptr || bytes == 0 || TryReserve(guest, *device, bytes);
}

bool ReserveBesidePools(Guest& guest, int ordinal, std::uint64_t bytes) {
  if (ReserveAtOnce(guest, ordinal, bytes)) return true;
  RefreshPools(guest);
  ReclaimOthers(guest);
  return ReserveAtOnce(guest, ordinal, bytes);
}

bool ReserveWithPools(Guest& guest, int ordinal, std::uint64_t bytes) {
  return ReserveBesidePools(guest, ordinal, bytes) ||
         (TrimPools(guest, ordinal) && ReserveAtOnce(guest, ordinal, bytes));
}

bool Reserve(Guest& guest, int ordinal, std::uint64_t bytes) {
  if (ReserveAtOnce(guest, ordinal, bytes)) return true;
  const Locked lock(guest.pools);
  return ReserveWithPools(guest, ordinal, bytes);
}

bool IsWithinRoom(Guest& guest, int ordinal) {
  const Device* const device = Known(guest, ordinal);
  const Locked lock(guest.meter);
  return device == nullptr || !device->in_ledger || wire::HasRoom(*guest.ledger, device->gpu);
}

void GiveBack(Guest& guest, int ordinal, std::uint64_t bytes) {
  Device* const device = Known(guest, ordinal);
  if (device == nullptr || bytes == 0) return;
  const Locked lock(guest.meter);
  device->held -= bytes < device->held ? bytes : device->held;
  if (device->in_ledger) wire::GiveBack(*guest.ledger, device->gpu, guest.slot, bytes);
}

void Charge(Guest& guest, int ordinal, std::uint64_t bytes) {
  Device* const device = Known(guest, ordinal);
  if (device == nullptr || bytes == 0) return;
  const Locked lock(guest.meter);
  device->held += bytes;
  if (device->in_ledger) wire::Charge(*guest.ledger, device->gpu, guest.slot, bytes);
}

bool Settle(Guest& guest, int device, std::uint64_t reserved, std::uint64_t cost) {
  if (cost < reserved) GiveBack(guest, device, reserved - cost);
  return cost <= reserved || Reserve(guest, device, cost - reserved);
}

Told TellOf(Guest& guest, int ordinal) {
  const Device* const device = Known(guest, ordinal);
  const Locked lock(guest.meter);
  return device != nullptr ? Tell(guest, device->in_ledger, device->gpu) : Told{UINT64_MAX, 0};
}

Told TellOf(Guest& guest, const std::uint8_t (&uuid)[16]) {
  const Locked lock(guest.meter);
  const int gpu = guest.ledger != nullptr ? wire::FindGpu(*guest.ledger, uuid) : -1;
  return Tell(guest, gpu >= 0, static_cast<unsigned>(gpu));
}

std::uint64_t CountedOn(Guest& guest, int ordinal) {
  const Device* const device = Known(guest, ordinal);
  const Locked lock(guest.meter);
  return device != nullptr ? device->held : 0;
}

std::uint64_t ContextBytes(Guest& guest, int ordinal) {
  const Device* const device = Known(guest, ordinal);
  const Locked lock(guest.meter);
  if (device == nullptr || !device->in_ledger) return 0;
  return RoundUp(wire::Load(guest.ledger->gpu[device->gpu].context_bytes), wire::kUnit);
}

}  // namespace gpuman::shim
