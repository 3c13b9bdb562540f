// Reported memory: the program is told its limit as the total, and the limit less what its job uses as free.
// The shim asks the driver first, so the driver's errors, and its answers to null pointers, stay as they are.
#include <cstring>

#include "shim/accounting/meter.h"
#include "shim/accounting/pools.h"
#include "shim/backing/paging.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"
#include "shim/libc/lock.h"

namespace gpuman::shim {
namespace {

std::uint64_t Less(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }
// Returns the total that the program is told of a device that has `whole`.
std::uint64_t TotalOf(const ReportedMemory& told, std::uint64_t whole) {
  return told.limit != UINT64_MAX && MayExceedDevice() ? told.limit : Less(whole, told.limit);
}
std::uint64_t FreeOf(const ReportedMemory& told) {
  return told.used < told.limit ? told.limit - told.used : 0;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Reads a UUID such as "GPU-93f6e897-…" into 16 bytes.
bool ParseUuid(const char* text, std::uint8_t (&uuid)[16]) {
  unsigned digits = 0;
  std::memset(uuid, 0, sizeof uuid);
  for (text += 4; *text != '\0'; ++text) {
    if (*text == '-') continue;
    const int value = HexDigit(*text);
    if (value < 0 || digits >= 32) return false;
    uuid[digits / 2] = static_cast<std::uint8_t>(uuid[digits / 2] << 4 | value);
    ++digits;
  }
  return digits == 32;
}

// Finds the reported memory of NVML's device. Returns false where there is no limit.
bool LimitOf(nvmlDevice_t device, ProcessState& state, ReportedMemory& told) {
  auto* const ask = GPUMAN_REAL(nvmlDeviceGetUUID);
  char text[96] = {};
  std::uint8_t uuid[16];
  if (ask == nullptr || ask(device, text, sizeof text - 1) != NVML_SUCCESS || std::strlen(text) < 4 ||
      !ParseUuid(text, uuid))
    return false;
  told = ReportedMemoryOf(state, uuid);
  return told.limit != UINT64_MAX;
}

// Managed memory takes room from the memory of others, so their memory counts as free.
CUresult TellWithoutOthers(ProcessState& state, int device, const ReportedMemory& told, size_t* free,
                           size_t* total) {
  auto* const real = GPUMAN_REAL(cuDeviceTotalMem_v2);
  size_t whole = 0;
  if (real == nullptr || real(&whole, device) != CUDA_SUCCESS) return CUDA_SUCCESS;
  const std::uint64_t held = CountedOn(state, device), used = told.used > held ? told.used : held;
  whole = TotalOf(told, whole);
  if (free != nullptr) *free = used < whole ? whole - used : 0;
  if (total != nullptr) *total = whole;
  return CUDA_SUCCESS;
}

}  // namespace

namespace hook {

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  auto* const real = GPUMAN_REAL(cuMemGetInfo_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(free, total);
  const HookErrnoScope scope;
  AllocationTarget where{};
  if (!scope || result != CUDA_SUCCESS || !CurrentWhere(*scope, where)) return result;
  if (__atomic_load_n(&(*scope).pools_used, __ATOMIC_ACQUIRE)) {
    const Locked lock((*scope).pools);
    RefreshPools(*scope);
  }
  const ReportedMemory told = ReportedMemoryOf(*scope, where.device);
  if (IsManaged(*scope, where.device)) return TellWithoutOthers(*scope, where.device, told, free, total);
  if (told.limit == UINT64_MAX) return result;
  if (free != nullptr) *free = Less(*free, FreeOf(told));
  if (total != nullptr) *total = Less(*total, told.limit);
  return result;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  auto* const real = GPUMAN_REAL(cuDeviceTotalMem_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(bytes, device);
  const HookErrnoScope scope;
  if (scope && result == CUDA_SUCCESS && bytes != nullptr)
    *bytes = TotalOf(ReportedMemoryOf(*scope, device), *bytes);
  return result;
}

}  // namespace hook

extern "C" {

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  auto* const real = GPUMAN_REAL(nvmlDeviceGetMemoryInfo);
  if (real == nullptr) return NVML_ERROR_UNINITIALIZED;
  const nvmlReturn_t result = real(device, memory);
  const HookErrnoScope scope;
  ReportedMemory told{};
  if (!scope || result != NVML_SUCCESS || memory == nullptr || !LimitOf(device, *scope, told)) return result;
  const bool more = told.limit > memory->total && MayExceedDevice();
  memory->total = TotalOf(told, memory->total);
  memory->free = more ? FreeOf(told) : Less(memory->free, FreeOf(told));
  memory->used = memory->total - Less(memory->free, memory->total);
  return result;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  auto* const real = GPUMAN_REAL(nvmlDeviceGetMemoryInfo_v2);
  if (real == nullptr) return NVML_ERROR_UNINITIALIZED;
  const nvmlReturn_t result = real(device, memory);
  const HookErrnoScope scope;
  ReportedMemory told{};
  if (!scope || result != NVML_SUCCESS || memory == nullptr || !LimitOf(device, *scope, told)) return result;
  const bool more = told.limit > memory->total && MayExceedDevice();
  if (told.limit >= memory->total && !more) return result;
  memory->total = told.limit;
  memory->free = more ? FreeOf(told) : Less(memory->free, FreeOf(told));
  memory->reserved = 0;  // of the device, not of the job
  memory->used = memory->total - memory->free;
  return result;
}

}  // extern "C"

}  // namespace gpuman::shim
