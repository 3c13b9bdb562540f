#include "shim/backing/paging.h"

#include <cstdlib>
#include <cstring>

#include "ledger/wire/messages.h"
#include "ledger/wire/orders.h"
#include "ledger/wire/slot_balance.h"
#include "shim/libc/lock.h"
#include "shim/symbols/driver.h"
#include "shim/symbols/evictable.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

enum class PlainMemoryMode : int { kUnknown, kAuto, kVmm, kManaged, kOversubscribe };

PlainMemoryMode ChosenMode() {
  static int known = static_cast<int>(PlainMemoryMode::kUnknown);
  PlainMemoryMode mode = static_cast<PlainMemoryMode>(__atomic_load_n(&known, __ATOMIC_RELAXED));
  if (mode != PlainMemoryMode::kUnknown) return mode;
  const char* const says = std::getenv(wire::kMemoryVariable);
  const auto is = [says](const char* word) { return says != nullptr && std::strcmp(says, word) == 0; };
  mode = is("oversubscribe") ? PlainMemoryMode::kOversubscribe
         : is("managed")     ? PlainMemoryMode::kManaged
         : is("vmm")         ? PlainMemoryMode::kVmm
                             : PlainMemoryMode::kAuto;
  __atomic_store_n(&known, static_cast<int>(mode), __ATOMIC_RELAXED);
  return mode;
}

bool Has(int device, CUdevice_attribute attribute) {
  auto* const ask = GPUMAN_REAL(cuDeviceGetAttribute);
  int value = 0;
  return ask != nullptr && ask(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

bool IsPagedOn(int device) {
  if (!Has(device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)) return false;
  if (WantsManaged()) return true;
  // The job may share the GPU, and only the driver can move memory on this device.
  return ChosenMode() == PlainMemoryMode::kAuto && MayBeEvicted() &&
         !(Has(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
           Has(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED));
}

bool IsWithinDevice(BackingState& state, int device) {
  auto* const ask = GPUMAN_REAL(cuDeviceTotalMem_v2);
  std::size_t whole = 0;
  return ask == nullptr || ask(&whole, device) != CUDA_SUCCESS || CountedOn(state, device) <= whole;
}

}  // namespace

bool WantsManaged() {
  return ChosenMode() == PlainMemoryMode::kManaged || ChosenMode() == PlainMemoryMode::kOversubscribe;
}

bool MayExceedDevice() { return ChosenMode() == PlainMemoryMode::kOversubscribe; }

bool IsManaged(BackingState& state, int device) {
  enum : std::uint32_t { kNotKnown, kYes, kNo };
  if (device < 0 || device >= kMaxDevices || ChosenMode() == PlainMemoryMode::kVmm) return false;
  std::uint32_t known = wire::Load(state.paged[device]);
  if (known == kNotKnown) {
    known = IsPagedOn(device) ? kYes : kNo;
    wire::Store(state.paged[device], known);
  }
  return known == kYes;
}

CUresult AllocateManaged(BackingState& state, const AllocationTarget& where, CUdeviceptr* pointer,
                         std::uint64_t bytes) {
  auto* const allocate = GPUMAN_REAL(cuMemAllocManaged);
  if (allocate == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  if (!MayExceedDevice() && !IsWithinDevice(state, where.device)) return CUDA_ERROR_OUT_OF_MEMORY;
  return allocate(pointer, bytes, CU_MEM_ATTACH_GLOBAL);
}

void TellManaged(BackingState& state) {
  if (!IsJoined(state)) return;
  const Locked lock(state.books);
  wire::Store(state.ledger->slot[state.slot].managed, state.allocations.managed());
}

}  // namespace gpuman::shim
