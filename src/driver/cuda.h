// The CUDA driver library, loaded at run time, with results as values.
//
// Nothing here is fatal: a missing library, a missing device and a missing function are errors that say so.
// Every function of abi/cuda.h is looked up by cuGetProcAddress, in the version that the table names, or by
// dlsym if the driver is too old for that. A function that neither finds stays null.
//
// The library stays loaded until the process ends: the vendor's library has threads that outlive a dlclose.
// An object is immutable once loaded, and any thread may use it. The caller is responsible for what CUDA
// keeps for each thread (the current context).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "driver/abi/cuda.h"

namespace gpuman::driver {

// One pointer for each function, under its exported symbol; null: this driver does not have it.
struct CudaCalls {
#define GPUMAN_CUDA_POINTER(name, symbol, version, twin, parameters, arguments) \
  abi::fn::symbol* symbol = nullptr;
  GPUMAN_CUDA_FUNCTIONS(GPUMAN_CUDA_POINTER)
#undef GPUMAN_CUDA_POINTER
};

// "CUDA_ERROR_OUT_OF_MEMORY"; "CUDA error 1234" for an unknown result.
std::string CudaErrorName(abi::CUresult result);

// "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6", as NVML writes it.
std::string FormatUuid(const abi::CUuuid& uuid);
// Reads the text that FormatUuid writes; nullopt for any other text, also that of a MIG device.
std::optional<abi::CUuuid> ParseUuid(std::string_view text);

struct CudaDevice {
  abi::CUdevice handle = 0;
  std::string uuid;
  std::string name;
  base::Bytes memory;
};

class CudaDriver {
 public:
  // kUnavailable: the library is missing, or the file is not a CUDA library.
  static base::Result<CudaDriver> Load(const std::string& library = "libcuda.so.1");

  const CudaCalls& calls() const { return calls_; }
  // The address of an exported symbol by dlsym, for per-thread twins (abi/cuda.h) and functions that the
  // table lacks.
  void* Symbol(const std::string& name) const;

  // Calls `function` and turns its result into an error that names `call`. A null function is kNotSupported.
  template <typename... Parameters, typename... Arguments>
  base::Result<> Invoke(std::string_view call, abi::CUresult (*function)(Parameters...),
                        Arguments&&... arguments) const {
    if (!function) return Missing(call);
    return Check(call, function(std::forward<Arguments>(arguments)...));
  }
  // Out of memory becomes kExhausted, not supported kNotSupported, a time-out kTimeout.
  static base::Result<> Check(std::string_view call, abi::CUresult result);

  base::Result<> Init() const;
  base::Result<int> Version() const;  // 13000 is CUDA 13.0
  base::Result<std::vector<CudaDevice>> Devices() const;

  // The driver's checkpoint of a whole process, from driver 570 on. The caller must be a process of the same
  // user and stay alive; only one such call at a time on a machine. For the states see the vendor's
  // documentation of each call.
  bool CanCheckpoint() const;
  base::Result<> LockProcess(int pid, base::Millis timeout) const;  // 0 waits without limit
  base::Result<> CheckpointProcess(int pid) const;
  // `gpus`: the old and the new UUID of every GPU of the machine; empty: the process returns to its old GPUs.
  base::Result<> RestoreProcess(int pid, std::span<const abi::CUcheckpointGpuPair> gpus = {}) const;
  base::Result<> UnlockProcess(int pid) const;
  // nullopt: the process lives and does not use CUDA. Call Init before.
  base::Result<std::optional<abi::CUprocessState>> ProcessState(int pid) const;

 private:
  explicit CudaDriver(void* library) : library_(library) {}
  static base::Result<> Missing(std::string_view call);
  void Resolve();

  void* library_;
  CudaCalls calls_;
};

}  // namespace gpuman::driver
