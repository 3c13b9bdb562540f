#include "shim/accounting/meter.h"

#include <cerrno>
#include <cstring>

#include "ledger/wire/reclaim.h"
#include "ledger/wire/slot_balance.h"
#include "shim/accounting/pools.h"
#include "shim/libc/clock.h"
#include "shim/libc/lock.h"
#include "shim/libc/threads.h"
#include "shim/symbols/driver.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

// Measured; used where the driver does not tell.
constexpr std::uint64_t kUsualGranule = std::uint64_t{2} << 20;

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

// Returns how much granted memory the job counts, if that is more than ever before; else 0. What other
// processes have reserved counts as well. The caller holds state.meter.
std::uint64_t NewPeak(const AccountingState& state, const Device& device) {
  if (!device.in_ledger) return 0;
  const std::uint64_t all = wire::TotalOf(*state.ledger, device.gpu);
  const std::uint64_t granted = all - (device.reserved < all ? device.reserved : all);
  return granted > wire::Load(state.ledger->gpu[device.gpu].peak) ? granted : 0;
}

// The caller holds state.meter.
wire::Composition Compose(const Device& device, std::uint64_t granted) {
  wire::Composition now{};
  std::uint64_t own = 0;
  for (unsigned kind = 0; kind < wire::kMemoryKinds; ++kind) own += now.of_kind[kind] = device.of_kind[kind];
  now.others = own < granted ? granted - own : 0;
  now.sum = own + now.others;
  return now;
}

// The caller holds state.meter, and no process that has ended counts.
void RaisePeak(AccountingState& state, const Device& device) {
  const std::uint64_t peak = NewPeak(state, device);
  if (peak == 0) return;
  wire::RaisePeak(*state.ledger, device.gpu, peak);
  if (wire::GpuPeakAndRefusals* const detail = wire::DetailOf(*state.ledger, device.gpu))
    wire::Write(detail->peak, Compose(device, peak));
}

// The name that the program was started by, without its directory.
void NameOfProgram(std::uint64_t (&name)[2]) {
  name[0] = name[1] = 0;
  if (program_invocation_short_name == nullptr) return;
  std::memcpy(name, program_invocation_short_name, ::strnlen(program_invocation_short_name, sizeof name));
}

// Tells the most that the process has had on the device. The caller holds state.meter.
void RaiseOwnPeak(Device& device) {
  const std::uint64_t granted = device.held - device.reserved;
  if (granted <= device.peak) return;
  device.peak = granted;
  if (device.peak_mark != nullptr) wire::WritePeak(*device.peak_mark, device.of_kind);
}

void Take(std::uint64_t& from, std::uint64_t bytes) { from -= bytes < from ? bytes : from; }

std::uint64_t& PartOf(Device& device, MemoryKind kind) { return device.of_kind[static_cast<unsigned>(kind)]; }

// The caller holds state.meter.
void FindInLedger(AccountingState& state, Device& device) {
  if (!device.known || device.in_ledger || state.ledger == nullptr) return;
  const int gpu = wire::FindGpu(*state.ledger, device.uuid);
  if (gpu < 0) return;
  device.gpu = static_cast<unsigned>(gpu);
  device.in_ledger = true;
  std::uint64_t name[2];
  NameOfProgram(name);
  device.peak_mark = wire::ClaimPeak(*state.ledger, state.slot, device.gpu, name);
  device.peak = 0;  // what it was is not known any more: the mark begins with what there is now
  RaiseOwnPeak(device);
  if (device.held == 0) return;
  wire::Charge(*state.ledger, device.gpu, state.slot, device.held);
  RaisePeak(state, device);
}

// Whether the index of a device that the process has nothing on is another GPU's since its job has moved.
// What the process does have on a device has moved with the job.
bool IsOtherGpu(const AccountingState& state, const Device& device) {
  return device.in_ledger && device.held == 0 &&
         wire::FindGpu(*state.ledger, device.uuid) != static_cast<int>(device.gpu);
}

// Looks for GPUs that the daemon has added to the ledger, or put into another's place. The caller holds
// state.meter.
void FollowChanges(AccountingState& state) {
  if (state.ledger == nullptr) return;
  const std::uint32_t changes = __atomic_load_n(&state.ledger->changes, __ATOMIC_ACQUIRE);
  if (changes == state.changes) return;
  state.changes = changes;
  for (Device& device : state.devices) {
    if (IsOtherGpu(state, device)) device.in_ledger = false;
    FindInLedger(state, device);
  }
}

Device* Known(AccountingState& state, int ordinal) {
  if (ordinal < 0 || ordinal >= kMaxDevices) return nullptr;
  Device& device = state.devices[ordinal];
  if (__atomic_load_n(&device.known, __ATOMIC_ACQUIRE)) return &device;
  CUuuid uuid{};
  auto* const newer = GPUMAN_REAL(cuDeviceGetUuid_v2);
  auto* const older = GPUMAN_REAL(cuDeviceGetUuid);
  if (newer != nullptr ? newer(&uuid, ordinal) != CUDA_SUCCESS
                       : older == nullptr || older(&uuid, ordinal) != CUDA_SUCCESS)
    return nullptr;
  const std::uint64_t granule = AskGranule(ordinal);
  const Locked lock(state.meter);
  if (device.known) return &device;
  std::memcpy(device.uuid, uuid.bytes, sizeof device.uuid);
  device.granule = granule;
  __atomic_store_n(&device.known, true, __ATOMIC_RELEASE);
  FindInLedger(state, device);
  return &device;
}

bool TryReserve(AccountingState& state, Device& device, std::uint64_t bytes) {
  const Locked lock(state.meter);
  FollowChanges(state);
  // An overwritten ledger stops no allocation: the guard still counts.
  if (device.in_ledger &&
      wire::Reserve(*state.ledger, device.gpu, state.slot, bytes) == wire::ChargeOutcome::kRefused)
    return false;
  device.held += bytes;
  device.reserved += bytes;
  return true;
}

// Processes that have ended may still count. The caller holds state.meter.
bool OthersCount(const AccountingState& state, const Device& device) {
  return wire::BytesOf(*state.ledger, device.gpu, state.slot) != wire::TotalOf(*state.ledger, device.gpu);
}

// Gives back the memory of processes that have ended. Their locks ended with them.
void ReclaimOthers(AccountingState& state) {
  const Locked lock(state.meter);
  if (state.ledger == nullptr || !IsStill(state.file)) return;
  wire::ReclaimSlots(*state.ledger, state.file.descriptor, state.slot);
}

ReportedMemory Tell(AccountingState& state, bool in_ledger, unsigned gpu) {
  if (!in_ledger) return {UINT64_MAX, 0};
  const wire::Gpu& entry = state.ledger->gpu[gpu];
  return {wire::Load(entry.limit), wire::TotalOf(*state.ledger, gpu) + wire::Load(entry.outside)};
}

}  // namespace

void Join(AccountingState& state, const JoinedLedger& joined) {
  const Locked lock(state.meter);
  state.file = Keep(joined.file);
  state.slot = joined.slot;
  state.ledger = joined.ledger;
  for (Device& device : state.devices) FindInLedger(state, device);
}

bool CurrentWhere(AccountingState& state, AllocationTarget& where) {
  auto* const get_device = GPUMAN_REAL(cuCtxGetDevice);
  auto* const get_context = GPUMAN_REAL(cuCtxGetCurrent);
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (get_device == nullptr || get_context == nullptr || get_device(&device) != CUDA_SUCCESS ||
      get_context(&context) != CUDA_SUCCESS)
    return false;
  where = {device, reinterpret_cast<std::uintptr_t>(context), GranuleOf(state, device)};
  return where.granule != 0;
}

std::uint64_t GranuleOf(AccountingState& state, int ordinal) {
  const Device* const device = Known(state, ordinal);
  return device != nullptr ? device->granule : 0;
}

int LedgerGpuOf(AccountingState& state, int ordinal) {
  const Device* const device = Known(state, ordinal);
  const Locked lock(state.meter);
  return device != nullptr && device->in_ledger ? static_cast<int>(device->gpu) : -1;
}

bool ReserveAtOnce(AccountingState& state, int ordinal, std::uint64_t bytes) {
  Device* const device = Known(state, ordinal);
  return device == nullptr || bytes == 0 || TryReserve(state, *device, bytes);
}

bool ReserveBesidePools(AccountingState& state, int ordinal, std::uint64_t bytes) {
  if (ReserveAtOnce(state, ordinal, bytes)) return true;
  RefreshPools(state);
  ReclaimOthers(state);
  return ReserveAtOnce(state, ordinal, bytes);
}

bool ReserveWithPools(AccountingState& state, int ordinal, std::uint64_t bytes) {
  return ReserveBesidePools(state, ordinal, bytes) ||
         (TrimPools(state, ordinal) && ReserveAtOnce(state, ordinal, bytes));
}

bool Reserve(AccountingState& state, int ordinal, std::uint64_t bytes) {
  if (ReserveAtOnce(state, ordinal, bytes)) return true;
  const Locked lock(state.pools);
  return ReserveWithPools(state, ordinal, bytes);
}

bool IsWithinRoom(AccountingState& state, int ordinal) {
  const Device* const device = Known(state, ordinal);
  const Locked lock(state.meter);
  return device == nullptr || !device->in_ledger || wire::HasRoom(*state.ledger, device->gpu);
}

void Granted(AccountingState& state, int ordinal, MemoryKind kind, std::uint64_t bytes) {
  Device* const device = Known(state, ordinal);
  if (device == nullptr || bytes == 0) return;
  {
    const Locked lock(state.meter);
    Take(device->reserved, bytes);
    PartOf(*device, kind) += bytes;
    RaiseOwnPeak(*device);
    if (NewPeak(state, *device) == 0) return;
    if (!OthersCount(state, *device)) return RaisePeak(state, *device);
  }
  ReclaimOthers(state);
  const Locked lock(state.meter);
  RaisePeak(state, *device);
}

void Withdraw(AccountingState& state, int ordinal, std::uint64_t bytes) {
  Device* const device = Known(state, ordinal);
  if (device == nullptr || bytes == 0) return;
  const Locked lock(state.meter);
  Take(device->held, bytes);
  Take(device->reserved, bytes);
  if (device->in_ledger) wire::GiveBack(*state.ledger, device->gpu, state.slot, bytes);
}

void Retain(AccountingState& state, int ordinal, MemoryKind kind, std::uint64_t bytes) {
  Device* const device = Known(state, ordinal);
  if (device == nullptr) return;
  const Locked lock(state.meter);
  device->reserved += bytes;
  Take(PartOf(*device, kind), bytes);
}

void GiveBack(AccountingState& state, int ordinal, MemoryKind kind, std::uint64_t bytes) {
  Device* const device = Known(state, ordinal);
  if (device == nullptr || bytes == 0) return;
  const Locked lock(state.meter);
  Take(device->held, bytes);
  Take(PartOf(*device, kind), bytes);
  if (device->in_ledger) wire::GiveBack(*state.ledger, device->gpu, state.slot, bytes);
}

void Charge(AccountingState& state, int ordinal, MemoryKind kind, std::uint64_t bytes) {
  Device* const device = Known(state, ordinal);
  if (device == nullptr || bytes == 0) return;
  const Locked lock(state.meter);
  device->held += bytes;
  PartOf(*device, kind) += bytes;
  if (!device->in_ledger) return;
  RaiseOwnPeak(*device);
  wire::Charge(*state.ledger, device->gpu, state.slot, bytes);
  RaisePeak(state, *device);
}

bool Commit(AccountingState& state, int device, MemoryKind kind, std::uint64_t reserved, std::uint64_t cost) {
  if (cost < reserved) Withdraw(state, device, reserved - cost);
  if (cost > reserved && !Reserve(state, device, cost - reserved)) return false;
  Granted(state, device, kind, cost);
  return true;
}

wire::Composition CompositionOn(AccountingState& state, int ordinal) {
  const Device* const device = Known(state, ordinal);
  const Locked lock(state.meter);
  if (device == nullptr || !device->in_ledger) return {};
  const std::uint64_t all = wire::TotalOf(*state.ledger, device->gpu);
  return Compose(*device, all - (device->reserved < all ? device->reserved : all));
}

ReportedMemory ReportedMemoryOf(AccountingState& state, int ordinal) {
  const Device* const device = Known(state, ordinal);
  const Locked lock(state.meter);
  return device != nullptr ? Tell(state, device->in_ledger, device->gpu) : ReportedMemory{UINT64_MAX, 0};
}

ReportedMemory ReportedMemoryOf(AccountingState& state, const std::uint8_t (&uuid)[16]) {
  const Locked lock(state.meter);
  const int gpu = state.ledger != nullptr ? wire::FindGpu(*state.ledger, uuid) : -1;
  return Tell(state, gpu >= 0, static_cast<unsigned>(gpu));
}

std::uint64_t CountedOn(AccountingState& state, int ordinal) {
  const Device* const device = Known(state, ordinal);
  const Locked lock(state.meter);
  return device != nullptr ? device->held : 0;
}

std::uint64_t ContextBytes(AccountingState& state, int ordinal) {
  const Device* const device = Known(state, ordinal);
  const Locked lock(state.meter);
  if (device == nullptr || !device->in_ledger) return 0;
  return RoundUp(wire::Load(state.ledger->gpu[device->gpu].context_bytes), wire::kUnit);
}

// The daemon may have read its last figures while the context was only half made.
void AwaitUncounted(AccountingState& state, int ordinal) {
  constexpr unsigned kSamples = 3;
  constexpr std::uint64_t kPatience = 5'000'000'000, kPatienceWithoutSamples = 1'000'000'000;
  constexpr timespec kPause{0, 1'000'000};
  const int index = LedgerGpuOf(state, ordinal);
  if (index < 0) return;
  const wire::Gpu& gpu = state.ledger->gpu[index];
  if (wire::Load(gpu.limit) == wire::kNoLimit) return;
  const NoCancellation whole;
  const std::uint64_t made = NowNs();
  std::uint64_t last = made;
  for (unsigned seen = 0; seen < kSamples;) {
    const std::uint64_t sampled = wire::Load(gpu.sampled_at);
    if (NowNs() - made >= (sampled > made ? kPatience : kPatienceWithoutSamples)) return;
    if (sampled > last) {
      last = sampled;
      ++seen;
    } else {
      ::nanosleep(&kPause, nullptr);
    }
  }
}

}  // namespace gpuman::shim
