#include "driver/cuda.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "base/parse_number.h"
#include "base/uuid.h"

namespace gpuman::driver {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

ErrorCode CodeOf(abi::CUresult result) {
  switch (result) {
    case abi::CUDA_ERROR_OUT_OF_MEMORY:
      return ErrorCode::kExhausted;
    case abi::CUDA_ERROR_INVALID_VALUE:
    case abi::CUDA_ERROR_INVALID_HANDLE:
      return ErrorCode::kInvalidArgument;
    case abi::CUDA_ERROR_NO_DEVICE:
    case abi::CUDA_ERROR_INVALID_DEVICE:
    case abi::CUDA_ERROR_NOT_FOUND:
      return ErrorCode::kNotFound;
    case abi::CUDA_ERROR_NOT_SUPPORTED:
      return ErrorCode::kNotSupported;
    case abi::CUDA_ERROR_NOT_PERMITTED:
      return ErrorCode::kPermissionDenied;
    case abi::CUDA_ERROR_ILLEGAL_STATE:
      return ErrorCode::kConflict;
    case abi::CUDA_ERROR_NOT_READY:
    case abi::CUDA_ERROR_TIMEOUT:
      return ErrorCode::kTimeout;
    case abi::CUDA_ERROR_DEVICE_UNAVAILABLE:
    case abi::CUDA_ERROR_SYSTEM_NOT_READY:
    case abi::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

std::string CudaErrorName(abi::CUresult result) {
  switch (result) {
#define GPUMAN_CUDA_NAME(name, value) \
  case abi::name:                     \
    return #name;
    GPUMAN_CUDA_RESULTS(GPUMAN_CUDA_NAME)
#undef GPUMAN_CUDA_NAME
  }
  return fmt::format("CUDA error {}", static_cast<unsigned>(result));
}

std::string FormatUuid(const abi::CUuuid& uuid) {
  std::array<std::uint8_t, sizeof uuid.bytes> bytes{};
  std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), bytes.begin());
  return "GPU-" + base::FormatUuid(bytes);
}

std::optional<abi::CUuuid> ParseUuid(std::string_view text) {
  constexpr std::size_t kLength = 40;  // "GPU-" and 8-4-4-4-12 digits
  if (text.size() != kLength || !text.starts_with("GPU-")) return std::nullopt;
  abi::CUuuid uuid{};
  auto digits = text.substr(4);
  for (char& byte : uuid.bytes) {
    if (digits.starts_with('-')) digits.remove_prefix(1);
    const auto value = base::ParseNumber<unsigned char>(digits.substr(0, 2), 16);
    if (!value) return std::nullopt;
    byte = static_cast<char>(*value);
    digits.remove_prefix(std::min<std::size_t>(digits.size(), 2));
  }
  if (FormatUuid(uuid) != text) return std::nullopt;
  return uuid;
}

Result<CudaDriver> CudaDriver::Load(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = ::dlerror();
    return Fail(ErrorCode::kUnavailable, fmt::format("no CUDA driver: {}", why ? why : library),
                "install the NVIDIA driver, or run under `gpuman-sim exec -- …` to use the simulated one");
  }
  CudaDriver driver(handle);
  driver.Resolve();
  if (!driver.calls_.cuInit)
    return Fail(ErrorCode::kUnavailable, fmt::format("{} is no CUDA driver: it has no cuInit", library));
  return driver;
}

void* CudaDriver::Symbol(const std::string& name) const { return ::dlsym(library_, name.c_str()); }

void CudaDriver::Resolve() {
  const auto get = reinterpret_cast<abi::fn::cuGetProcAddress_v2*>(Symbol("cuGetProcAddress_v2"));
  const auto find = [&](const char* name, const char* symbol, int version) -> void* {
    void* found = nullptr;
    abi::CUdriverProcAddressQueryResult status{};
    if (get && get(name, &found, version, abi::CU_GET_PROC_ADDRESS_DEFAULT, &status) == abi::CUDA_SUCCESS &&
        found)
      return found;
    return Symbol(symbol);
  };
#define GPUMAN_CUDA_RESOLVE(name, symbol, version, twin, parameters, arguments) \
  calls_.symbol = reinterpret_cast<abi::fn::symbol*>(find(#name, #symbol, version));
  GPUMAN_CUDA_FUNCTIONS(GPUMAN_CUDA_RESOLVE)
#undef GPUMAN_CUDA_RESOLVE
}

Result<> CudaDriver::Missing(std::string_view call) {
  return Fail(ErrorCode::kNotSupported, fmt::format("{}: this driver has no such function", call),
              "a newer NVIDIA driver may have it");
}

Result<> CudaDriver::Check(std::string_view call, abi::CUresult result) {
  if (result == abi::CUDA_SUCCESS) return {};
  return Fail(CodeOf(result),
              fmt::format("{}: {} ({})", call, CudaErrorName(result), static_cast<unsigned>(result)));
}

Result<> CudaDriver::Init() const { return Invoke("cuInit", calls_.cuInit, 0u); }

Result<int> CudaDriver::Version() const {
  int version = 0;
  GPUMAN_TRY(Invoke("cuDriverGetVersion", calls_.cuDriverGetVersion, &version));
  return version;
}

Result<std::vector<CudaDevice>> CudaDriver::Devices() const {
  int count = 0;
  GPUMAN_TRY(Invoke("cuDeviceGetCount", calls_.cuDeviceGetCount, &count));
  std::vector<CudaDevice> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CudaDevice device;
    GPUMAN_TRY(Invoke("cuDeviceGet", calls_.cuDeviceGet, &device.handle, ordinal));
    abi::CUuuid uuid{};
    if (calls_.cuDeviceGetUuid_v2) {
      GPUMAN_TRY(Invoke("cuDeviceGetUuid", calls_.cuDeviceGetUuid_v2, &uuid, device.handle));
    } else {
      GPUMAN_TRY(Invoke("cuDeviceGetUuid", calls_.cuDeviceGetUuid, &uuid, device.handle));
    }
    device.uuid = FormatUuid(uuid);
    std::array<char, 256> name{};
    GPUMAN_TRY(Invoke("cuDeviceGetName", calls_.cuDeviceGetName, name.data(),
                      static_cast<int>(name.size() - 1), device.handle));
    device.name = name.data();
    std::size_t bytes = 0;
    GPUMAN_TRY(Invoke("cuDeviceTotalMem", calls_.cuDeviceTotalMem_v2, &bytes, device.handle));
    device.memory = {bytes};
    devices.push_back(std::move(device));
  }
  return devices;
}

bool CudaDriver::CanCheckpoint() const {
  return calls_.cuCheckpointProcessLock && calls_.cuCheckpointProcessCheckpoint &&
         calls_.cuCheckpointProcessRestore && calls_.cuCheckpointProcessUnlock &&
         calls_.cuCheckpointProcessGetState;
}

Result<> CudaDriver::LockProcess(int pid, base::Millis timeout) const {
  if (timeout.count() < 0 || timeout.count() > UINT32_MAX)
    return Fail(ErrorCode::kInvalidArgument, "the time limit of a lock is 0 to 49 days");
  abi::CUcheckpointLockArgs args{};
  args.timeoutMs = static_cast<unsigned>(timeout.count());
  return Invoke("cuCheckpointProcessLock", calls_.cuCheckpointProcessLock, pid, &args);
}

Result<> CudaDriver::CheckpointProcess(int pid) const {
  abi::CUcheckpointCheckpointArgs args{};
  return Invoke("cuCheckpointProcessCheckpoint", calls_.cuCheckpointProcessCheckpoint, pid, &args);
}

Result<> CudaDriver::RestoreProcess(int pid, std::span<const abi::CUcheckpointGpuPair> gpus) const {
  std::vector<abi::CUcheckpointGpuPair> pairs(gpus.begin(), gpus.end());
  abi::CUcheckpointRestoreArgs args{};
  args.gpuPairs = pairs.empty() ? nullptr : pairs.data();
  args.gpuPairsCount = static_cast<unsigned>(pairs.size());
  return Invoke("cuCheckpointProcessRestore", calls_.cuCheckpointProcessRestore, pid, &args);
}

Result<> CudaDriver::UnlockProcess(int pid) const {
  abi::CUcheckpointUnlockArgs args{};
  return Invoke("cuCheckpointProcessUnlock", calls_.cuCheckpointProcessUnlock, pid, &args);
}

Result<std::optional<abi::CUprocessState>> CudaDriver::ProcessState(int pid) const {
  constexpr std::string_view kCall = "cuCheckpointProcessGetState";
  if (!calls_.cuCheckpointProcessGetState) GPUMAN_TRY(Missing(kCall));
  abi::CUprocessState state{};
  const auto result = calls_.cuCheckpointProcessGetState(pid, &state);
  // The H200's driver (580) returns this for a process that never called cuInit.
  if (result == abi::CUDA_ERROR_NOT_INITIALIZED) return std::nullopt;
  GPUMAN_TRY(Check(kCall, result));
  return state;
}

}  // namespace gpuman::driver
