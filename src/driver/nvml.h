// NVML, loaded at run time, with results as values: gpuman's only way to ask about devices.
//
// Nothing here is fatal: a missing library, driver, function of this driver or value of this device is an
// error that says which it is. Each method is one call of the library (a loop if sizes must be found out).
// Nothing is cached. The driver determines how long a call takes: it may hang. Safe to use from several
// threads, as NVML is. The library stays loaded until the process ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "driver/abi/nvml.h"

namespace gpuman::driver {

enum class NvmlFailure {
  kNoDriver,      // no library, or no kernel driver behind it
  kNoFunction,    // this driver's library lacks the function
  kNotSupported,  // this device lacks the feature
  kNoPermission,  // needs root
  kNotFound,      // no such device
  kGpuLost,       // the device fell off the bus, or must be reset first
  kInvalid,       // a wrong argument
  kTimeout,
  kOther,
};

// A base::Error with the kind of failure; converts to one where a base::Result is returned.
struct NvmlError : base::Error {
  NvmlFailure failure = NvmlFailure::kOther;
  abi::nvmlReturn_t status = abi::NVML_ERROR_UNKNOWN;
};
template <typename T = void>
using NvmlResult = tl::expected<T, NvmlError>;

using NvmlDevice = abi::nvmlDevice_t;  // valid while the Nvml that gave it lives

struct NvmlDeviceInfo {
  unsigned index = 0;
  std::string uuid;        // "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6"
  std::string name;        // "NVIDIA H200"
  std::string pci_bus_id;  // "00000000:00:06.0"
  std::optional<unsigned> minor;
  base::Bytes memory;  // total
};

// total = reserved + used + free. A driver before 510 does not report `reserved`: it is 0, and `used`
// includes it.
struct NvmlMemory {
  base::Bytes total, reserved, used, free;
};

// What the processes of a cgroup may have of a device, as the driver itself holds it.
struct NvmlMemoryLimits {
  base::Bytes soft{};
  std::optional<base::Bytes> hard{};  // nullopt: none
  friend bool operator==(const NvmlMemoryLimits&, const NvmlMemoryLimits&) = default;
};

struct NvmlProcess {
  int pid = 0;                        // in the host's namespace
  std::optional<base::Bytes> memory;  // nullopt: the driver does not know it
  // Ids of the MIG instances, if the device is split.
  std::optional<unsigned> gpu_instance, compute_instance;
};

struct NvmlUtilization {
  unsigned gpu = 0, memory = 0;  // percent of the driver's last sampling period (1/6 to 1 s)
};

// A process that used the device: it computed, copied, encoded or decoded.
struct NvmlBusyProcess {
  int pid = 0;
  std::uint64_t time_us = 0;  // CLOCK_REALTIME, of the driver's sample
  unsigned work = 0;          // percent of the sample's time in which it ran something
};

struct NvmlMigMode {
  bool enabled = false, pending = false;
};

// A MIG device: a compute instance of a split GPU.
struct NvmlInstanceInfo {
  std::string uuid;  // "MIG-…"
  std::string name;  // "NVIDIA H200 MIG 1g.18gb"
  unsigned gpu_instance = 0, compute_instance = 0;
  base::Bytes memory;  // total memory of its GPU instance
};

struct NvmlEvent {
  NvmlDevice device = nullptr;
  std::uint64_t type = 0;  // abi::nvmlEventType…
  std::uint64_t data = 0;  // for an Xid event: the Xid
};

// One pointer for each function of abi/nvml.h; null: this driver does not have it.
struct NvmlCalls {
#define GPUMAN_NVML_POINTER(since, name, parameters) abi::fn::name* name = nullptr;
  GPUMAN_NVML_FUNCTIONS(GPUMAN_NVML_POINTER)
#undef GPUMAN_NVML_POINTER
  abi::nvmlErrorString_fn* nvmlErrorString = nullptr;
};

class NvmlEventSet;

class Nvml {
 public:
  // Loads the library and initialises it; the destructor shuts it down.
  static NvmlResult<std::unique_ptr<Nvml>> Load(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  NvmlResult<std::string> DriverVersion() const;  // "580.159.04"
  NvmlResult<int> CudaVersion() const;            // 13000 is CUDA 13.0

  NvmlResult<unsigned> DeviceCount() const;
  NvmlResult<NvmlDevice> DeviceAt(unsigned index) const;
  NvmlResult<NvmlDevice> DeviceByUuid(const std::string& uuid) const;
  NvmlResult<NvmlDeviceInfo> Info(NvmlDevice device) const;

  NvmlResult<NvmlMemory> Memory(NvmlDevice device) const;
  // Limits that the driver itself holds for a cgroup v2, named by its directory: driver 615 and later, whole
  // GPUs only, root. A driver of that age may still answer kNotSupported for a device.
  bool HasMemoryLimits() const {
    return calls_.nvmlDeviceGetMemoryLimits_v1 != nullptr && calls_.nvmlDeviceSetMemoryLimits_v1 != nullptr;
  }
  NvmlResult<NvmlMemoryLimits> MemoryLimits(NvmlDevice device, const std::string& cgroup) const;
  NvmlResult<> SetMemoryLimits(NvmlDevice device, const std::string& cgroup,
                               const NvmlMemoryLimits& limits) const;
  NvmlResult<std::vector<NvmlProcess>> ComputeProcesses(NvmlDevice device) const;
  NvmlResult<std::vector<NvmlProcess>> GraphicsProcesses(NvmlDevice device) const;
  NvmlResult<NvmlUtilization> Utilization(NvmlDevice device) const;
  NvmlResult<int> Temperature(NvmlDevice device) const;  // degrees Celsius
  NvmlResult<unsigned> PowerMilliwatts(NvmlDevice device) const;
  // Since the driver was loaded.
  NvmlResult<std::uint64_t> EnergyMillijoules(NvmlDevice device) const;
  // The driver's samples that are newer than `since_us`. The driver keeps the samples of some seconds.
  NvmlResult<std::vector<NvmlBusyProcess>> BusyProcesses(NvmlDevice device, std::uint64_t since_us) const;
  NvmlResult<NvmlMigMode> MigMode(NvmlDevice device) const;
  // The largest possible number of MIG devices of a GPU; and the MIG device with this number (kNotFound:
  // there is none).
  NvmlResult<unsigned> MostInstances(NvmlDevice device) const;
  NvmlResult<NvmlDevice> InstanceAt(NvmlDevice device, unsigned number) const;
  NvmlResult<NvmlInstanceInfo> InstanceInfo(NvmlDevice instance) const;
  NvmlResult<std::string> Uuid(NvmlDevice device) const;  // of a GPU or a MIG device

  // The relation between two devices.
  NvmlResult<abi::nvmlGpuTopologyLevel_t> CommonAncestor(NvmlDevice a, NvmlDevice b) const;
  NvmlResult<bool> HaveNvLink(NvmlDevice a, NvmlDevice b) const;

  // Event types that the device can report, and a set that waits for some of them.
  NvmlResult<std::uint64_t> SupportedEvents(NvmlDevice device) const;
  NvmlResult<NvmlEventSet> CreateEventSet() const;

  // The functions themselves, for callers that need one without a method.
  const NvmlCalls& calls() const { return calls_; }
  // The error for `status` of function `call`.
  static NvmlError Describe(std::string_view call, abi::nvmlReturn_t status);

 private:
  Nvml() = default;
  void Resolve(void* library);
  template <typename... Parameters, typename... Arguments>
  NvmlResult<> Invoke(std::string_view call, abi::nvmlReturn_t (*function)(Parameters...),
                      Arguments... arguments) const;
  template <typename Getter>
  NvmlResult<std::string> Text(std::string_view call, Getter getter) const;
  NvmlResult<std::string> Name(NvmlDevice device) const;

  using ProcessesCall = abi::fn::nvmlDeviceGetComputeRunningProcesses_v3;
  NvmlResult<std::vector<NvmlProcess>> Processes(std::string_view call, ProcessesCall* function,
                                                 abi::fn::nvmlDeviceGetComputeRunningProcesses* oldest,
                                                 NvmlDevice device) const;

  NvmlCalls calls_;
  ProcessesCall* compute_processes_ = nullptr;  // the newest version that works with this driver
  ProcessesCall* graphics_processes_ = nullptr;
};

// One thread waits for the events of these devices. Move-only; must not outlive its Nvml.
class NvmlEventSet {
 public:
  NvmlEventSet(NvmlEventSet&& other) noexcept;
  NvmlEventSet& operator=(NvmlEventSet&& other) noexcept;
  ~NvmlEventSet();

  // kNotSupported: the device does not support one of the types.
  NvmlResult<> Add(NvmlDevice device, std::uint64_t types);
  // Blocks; nullopt: no event came in time.
  NvmlResult<std::optional<NvmlEvent>> Wait(base::Millis timeout);

 private:
  friend class Nvml;
  NvmlEventSet(const NvmlCalls& calls, abi::nvmlEventSet_t set) : calls_(&calls), set_(set) {}
  const NvmlCalls* calls_;
  abi::nvmlEventSet_t set_;
};

}  // namespace gpuman::driver
