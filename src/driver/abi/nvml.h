// The part of NVML's C interface that gpuman and its simulated driver use: types, numbers and functions,
// under the vendor's names. Layouts and numbers are facts of libnvidia-ml.so.1; nvml_abi_test compares each
// with the vendor's nvml.h if that is present. Only what is used is declared.
//
// Header versions differ in names, not in values: if the vendor renamed something, we use the newest name.
#pragma once

#include <cstddef>

namespace gpuman::driver::abi {

struct nvmlDevice_st;
struct nvmlEventSet_st;
struct nvmlGpuInstance_st;
struct nvmlComputeInstance_st;
using nvmlDevice_t = nvmlDevice_st*;
using nvmlEventSet_t = nvmlEventSet_st*;
using nvmlGpuInstance_t = nvmlGpuInstance_st*;
using nvmlComputeInstance_t = nvmlComputeInstance_st*;

// The numbers of nvmlReturn_t, with the texts of nvmlErrorString.
#define GPUMAN_NVML_RETURNS(X)                                                     \
  X(NVML_SUCCESS, 0, "Success")                                                    \
  X(NVML_ERROR_UNINITIALIZED, 1, "Uninitialized")                                  \
  X(NVML_ERROR_INVALID_ARGUMENT, 2, "Invalid Argument")                            \
  X(NVML_ERROR_NOT_SUPPORTED, 3, "Not Supported")                                  \
  X(NVML_ERROR_NO_PERMISSION, 4, "Insufficient Permissions")                       \
  X(NVML_ERROR_ALREADY_INITIALIZED, 5, "Already Initialized")                      \
  X(NVML_ERROR_NOT_FOUND, 6, "Not Found")                                          \
  X(NVML_ERROR_INSUFFICIENT_SIZE, 7, "Insufficient Size")                          \
  X(NVML_ERROR_INSUFFICIENT_POWER, 8, "Insufficient External Power")               \
  X(NVML_ERROR_DRIVER_NOT_LOADED, 9, "Driver Not Loaded")                          \
  X(NVML_ERROR_TIMEOUT, 10, "Timeout")                                             \
  X(NVML_ERROR_IRQ_ISSUE, 11, "Interrupt Request Issue")                           \
  X(NVML_ERROR_LIBRARY_NOT_FOUND, 12, "NVML Shared Library Not Found")             \
  X(NVML_ERROR_FUNCTION_NOT_FOUND, 13, "Function Not Found")                       \
  X(NVML_ERROR_CORRUPTED_INFOROM, 14, "Corrupted infoROM")                         \
  X(NVML_ERROR_GPU_IS_LOST, 15, "GPU is lost")                                     \
  X(NVML_ERROR_RESET_REQUIRED, 16, "GPU requires reset")                           \
  X(NVML_ERROR_OPERATING_SYSTEM, 17, "GPU access blocked by the operating system") \
  X(NVML_ERROR_LIB_RM_VERSION_MISMATCH, 18, "Driver/library version mismatch")     \
  X(NVML_ERROR_IN_USE, 19, "In use by another client")                             \
  X(NVML_ERROR_MEMORY, 20, "Insufficient Memory")                                  \
  X(NVML_ERROR_NO_DATA, 21, "No data")                                             \
  X(NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, 22, "ECC on vGPU not supported")            \
  X(NVML_ERROR_INSUFFICIENT_RESOURCES, 23, "Insufficient Resources")               \
  X(NVML_ERROR_FREQ_NOT_SUPPORTED, 24, "Frequency Not Supported")                  \
  X(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, 25, "Argument Version Mismatch")         \
  X(NVML_ERROR_DEPRECATED, 26, "Deprecated")                                       \
  X(NVML_ERROR_NOT_READY, 27, "Not Ready")                                         \
  X(NVML_ERROR_GPU_NOT_FOUND, 28, "GPU Not Found")                                 \
  X(NVML_ERROR_INVALID_STATE, 29, "Invalid State")                                 \
  X(NVML_ERROR_UNKNOWN, 999, "Unknown Error")

#define GPUMAN_NVML_ENUMERATOR(name, value, text) name = value,
enum nvmlReturn_t : int { GPUMAN_NVML_RETURNS(GPUMAN_NVML_ENUMERATOR) };
#undef GPUMAN_NVML_ENUMERATOR

enum nvmlEnableState_t : unsigned { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 };

enum nvmlTemperatureSensors_t : unsigned { NVML_TEMPERATURE_GPU = 0 };

enum nvmlTemperatureThresholds_t : unsigned {
  NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0,
  NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1,
  NVML_TEMPERATURE_THRESHOLD_MEM_MAX = 2,
  NVML_TEMPERATURE_THRESHOLD_GPU_MAX = 3,
  NVML_TEMPERATURE_THRESHOLD_COUNT = 8,
};

enum nvmlClockType_t : unsigned {
  NVML_CLOCK_GRAPHICS = 0,
  NVML_CLOCK_SM = 1,
  NVML_CLOCK_MEM = 2,
  NVML_CLOCK_VIDEO = 3,
  NVML_CLOCK_COUNT = 4,
};

enum nvmlClockId_t : unsigned {
  NVML_CLOCK_ID_CURRENT = 0,
  NVML_CLOCK_ID_APP_CLOCK_TARGET = 1,
  NVML_CLOCK_ID_APP_CLOCK_DEFAULT = 2,
  NVML_CLOCK_ID_CUSTOMER_BOOST_MAX = 3,
};

enum nvmlComputeMode_t : unsigned {
  NVML_COMPUTEMODE_DEFAULT = 0,
  NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1,
  NVML_COMPUTEMODE_PROHIBITED = 2,
  NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
};

enum nvmlPstates_t : unsigned {
  NVML_PSTATE_0 = 0,
  NVML_PSTATE_2 = 2,
  NVML_PSTATE_8 = 8,
  NVML_PSTATE_15 = 15,
  NVML_PSTATE_UNKNOWN = 32,
};

enum nvmlBrandType_t : unsigned {
  NVML_BRAND_UNKNOWN = 0,
  NVML_BRAND_TESLA = 2,
  NVML_BRAND_GEFORCE = 5,
  NVML_BRAND_NVIDIA = 14,
};

enum nvmlMemoryErrorType_t : unsigned {
  NVML_MEMORY_ERROR_TYPE_CORRECTED = 0,
  NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
};

enum nvmlEccCounterType_t : unsigned { NVML_VOLATILE_ECC = 0, NVML_AGGREGATE_ECC = 1 };

enum nvmlMemoryLocation_t : unsigned {
  NVML_MEMORY_LOCATION_L1_CACHE = 0,
  NVML_MEMORY_LOCATION_L2_CACHE = 1,
  NVML_MEMORY_LOCATION_DRAM = 2,
  NVML_MEMORY_LOCATION_REGISTER_FILE = 3,
  NVML_MEMORY_LOCATION_TEXTURE_MEMORY = 4,
  NVML_MEMORY_LOCATION_TEXTURE_SHM = 5,
  NVML_MEMORY_LOCATION_CBU = 6,
  NVML_MEMORY_LOCATION_SRAM = 7,
  NVML_MEMORY_LOCATION_COUNT = 8,
};

enum nvmlPageRetirementCause_t : unsigned {
  NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS = 0,
  NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 1,
};

enum nvmlPcieUtilCounter_t : unsigned { NVML_PCIE_UTIL_TX_BYTES = 0, NVML_PCIE_UTIL_RX_BYTES = 1 };

enum nvmlPerfPolicyType_t : unsigned {
  NVML_PERF_POLICY_POWER = 0,
  NVML_PERF_POLICY_THERMAL = 1,
  NVML_PERF_POLICY_SYNC_BOOST = 2,
  NVML_PERF_POLICY_BOARD_LIMIT = 3,
  NVML_PERF_POLICY_LOW_UTILIZATION = 4,
  NVML_PERF_POLICY_RELIABILITY = 5,
  NVML_PERF_POLICY_TOTAL_APP_CLOCKS = 10,
  NVML_PERF_POLICY_TOTAL_BASE_CLOCKS = 11,
};

enum nvmlDriverModel_t : unsigned { NVML_DRIVER_WDDM = 0, NVML_DRIVER_WDM = 1 };

enum nvmlGpuVirtualizationMode_t : unsigned {
  NVML_GPU_VIRTUALIZATION_MODE_NONE = 0,
  NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH = 1,
};

enum nvmlValueType_t : unsigned {
  NVML_VALUE_TYPE_DOUBLE = 0,
  NVML_VALUE_TYPE_UNSIGNED_INT = 1,
  NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
  NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
  NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4,
  NVML_VALUE_TYPE_SIGNED_INT = 5,
};

// The lowest level of the topology that two devices have in common.
enum nvmlGpuTopologyLevel_t : unsigned {
  NVML_TOPOLOGY_INTERNAL = 0,     // one board
  NVML_TOPOLOGY_SINGLE = 10,      // one PCIe switch
  NVML_TOPOLOGY_MULTIPLE = 20,    // several switches, no host bridge
  NVML_TOPOLOGY_HOSTBRIDGE = 30,  // a host bridge
  NVML_TOPOLOGY_NODE = 40,        // one NUMA node
  NVML_TOPOLOGY_SYSTEM = 50,
};

enum nvmlGpuP2PCapsIndex_t : unsigned {
  NVML_P2P_CAPS_INDEX_READ = 0,
  NVML_P2P_CAPS_INDEX_WRITE = 1,
  NVML_P2P_CAPS_INDEX_NVLINK = 2,
};

enum nvmlGpuP2PStatus_t : unsigned {
  NVML_P2P_STATUS_OK = 0,
  NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1,
  NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2,
  NVML_P2P_STATUS_NOT_SUPPORTED = 5,
  NVML_P2P_STATUS_UNKNOWN = 6,
};

using nvmlDeviceArchitecture_t = unsigned;
inline constexpr unsigned NVML_DEVICE_ARCH_AMPERE = 7;
inline constexpr unsigned NVML_DEVICE_ARCH_ADA = 8;
inline constexpr unsigned NVML_DEVICE_ARCH_HOPPER = 9;

inline constexpr unsigned NVML_INIT_FLAG_NO_GPUS = 1;
inline constexpr unsigned NVML_INIT_FLAG_NO_ATTACH = 2;

inline constexpr unsigned NVML_DEVICE_MIG_DISABLE = 0;
inline constexpr unsigned NVML_DEVICE_MIG_ENABLE = 1;

// The numbers for asking for a profile of a GPU instance. To create one, use
// nvmlGpuInstanceProfileInfo_t::id.
inline constexpr unsigned NVML_GPU_INSTANCE_PROFILE_1_SLICE = 0;
inline constexpr unsigned NVML_GPU_INSTANCE_PROFILE_2_SLICE = 1;
inline constexpr unsigned NVML_GPU_INSTANCE_PROFILE_3_SLICE = 2;
inline constexpr unsigned NVML_GPU_INSTANCE_PROFILE_4_SLICE = 3;
inline constexpr unsigned NVML_GPU_INSTANCE_PROFILE_7_SLICE = 4;
inline constexpr unsigned NVML_GPU_INSTANCE_PROFILE_8_SLICE = 5;
inline constexpr unsigned NVML_GPU_INSTANCE_PROFILE_6_SLICE = 6;
inline constexpr unsigned NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1 = 7;  // with media engines
inline constexpr unsigned NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1 = 8;
inline constexpr unsigned NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2 = 9;  // with twice the memory

// The same for compute instances.
inline constexpr unsigned NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE = 0;
inline constexpr unsigned NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE = 1;
inline constexpr unsigned NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE = 2;
inline constexpr unsigned NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE = 3;
inline constexpr unsigned NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE = 4;
inline constexpr unsigned NVML_COMPUTE_INSTANCE_PROFILE_8_SLICE = 5;
inline constexpr unsigned NVML_COMPUTE_INSTANCE_PROFILE_6_SLICE = 6;
inline constexpr unsigned NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1 = 7;
inline constexpr unsigned NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0;

// A process's memory when the driver does not know it.
inline constexpr unsigned long long NVML_VALUE_NOT_AVAILABLE = ~0ull;
// The instance ids of a process on a device without MIG.
inline constexpr unsigned kNoInstance = ~0u;

inline constexpr std::size_t NVML_DEVICE_NAME_V2_BUFFER_SIZE = 96;
inline constexpr std::size_t NVML_DEVICE_UUID_V2_BUFFER_SIZE = 96;
inline constexpr std::size_t NVML_DEVICE_SERIAL_BUFFER_SIZE = 30;
inline constexpr std::size_t NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE = 32;
inline constexpr std::size_t NVML_DEVICE_PART_NUMBER_BUFFER_SIZE = 80;
inline constexpr std::size_t NVML_DEVICE_INFOROM_VERSION_BUFFER_SIZE = 16;
inline constexpr std::size_t NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE = 80;
inline constexpr std::size_t NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE = 32;
inline constexpr std::size_t NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE = 16;
inline constexpr std::size_t NVML_GSP_FIRMWARE_VERSION_BUF_SIZE = 64;

inline constexpr unsigned long long nvmlEventTypeSingleBitEccError = 0x1;
inline constexpr unsigned long long nvmlEventTypeDoubleBitEccError = 0x2;
inline constexpr unsigned long long nvmlEventTypePState = 0x4;
inline constexpr unsigned long long nvmlEventTypeXidCriticalError = 0x8;
inline constexpr unsigned long long nvmlEventTypeClock = 0x10;

inline constexpr unsigned long long nvmlClocksEventReasonGpuIdle = 0x1;
inline constexpr unsigned long long nvmlClocksEventReasonApplicationsClocksSetting = 0x2;
inline constexpr unsigned long long nvmlClocksEventReasonSwPowerCap = 0x4;
inline constexpr unsigned long long nvmlClocksThrottleReasonHwSlowdown = 0x8;
inline constexpr unsigned long long nvmlClocksEventReasonSyncBoost = 0x10;
inline constexpr unsigned long long nvmlClocksEventReasonSwThermalSlowdown = 0x20;
inline constexpr unsigned long long nvmlClocksThrottleReasonHwThermalSlowdown = 0x40;
inline constexpr unsigned long long nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80;
inline constexpr unsigned long long nvmlClocksEventReasonDisplayClockSetting = 0x100;

inline constexpr unsigned NVML_FI_DEV_ECC_CURRENT = 1;
inline constexpr unsigned NVML_FI_DEV_ECC_PENDING = 2;
inline constexpr unsigned NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL = 38;
inline constexpr unsigned NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL = 45;
inline constexpr unsigned NVML_FI_DEV_MEMORY_TEMP = 82;
inline constexpr unsigned NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION = 83;
inline constexpr unsigned NVML_FI_DEV_NVLINK_LINK_COUNT = 91;
inline constexpr unsigned NVML_FI_DEV_PCIE_REPLAY_COUNTER = 94;
inline constexpr unsigned NVML_FI_DEV_REMAPPED_COR = 142;
inline constexpr unsigned NVML_FI_DEV_REMAPPED_UNC = 143;
inline constexpr unsigned NVML_FI_DEV_REMAPPED_PENDING = 144;
inline constexpr unsigned NVML_FI_DEV_REMAPPED_FAILURE = 145;
inline constexpr unsigned NVML_FI_DEV_POWER_AVERAGE = 185;
inline constexpr unsigned NVML_FI_DEV_POWER_INSTANT = 186;
inline constexpr unsigned NVML_FI_DEV_POWER_MIN_LIMIT = 187;
inline constexpr unsigned NVML_FI_DEV_POWER_MAX_LIMIT = 188;
inline constexpr unsigned NVML_FI_DEV_POWER_DEFAULT_LIMIT = 189;
inline constexpr unsigned NVML_FI_DEV_POWER_CURRENT_LIMIT = 190;
inline constexpr unsigned NVML_FI_DEV_POWER_REQUESTED_LIMIT = 192;
inline constexpr unsigned NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT = 193;
inline constexpr unsigned NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT = 194;
inline constexpr unsigned NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT = 195;
inline constexpr unsigned NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT = 196;
inline constexpr unsigned NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230;

// The version word of a versioned struct combines its size and its version.
template <typename Struct>
constexpr unsigned StructVersion(unsigned version) {
  return static_cast<unsigned>(sizeof(Struct)) | version << 24;
}

struct nvmlPciInfo_t {
  char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
  unsigned domain, bus, device;
  unsigned pciDeviceId, pciSubSystemId;
  char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
};

struct nvmlMemory_t {
  unsigned long long total, free, used;  // `used` includes the memory that the driver keeps
};

struct nvmlMemory_v2_t {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
inline constexpr unsigned nvmlMemory_v2 = StructVersion<nvmlMemory_v2_t>(2);

inline constexpr unsigned long long NVML_DEVICE_MEMORY_LIMIT_MAX = ~0ULL;  // as a hard limit: none

// What the processes of a cgroup may have of a device. No limit: soft 0, hard NVML_DEVICE_MEMORY_LIMIT_MAX.
struct nvmlSetMemoryLimits_v1_t {
  const char* nameSpace;  // the cgroup's directory
  unsigned long long softLimit, hardLimit;
};

struct nvmlGetMemoryLimits_v1_t {
  const char* nameSpace;  // the caller's
  unsigned long long softLimit, hardLimit, currentUsed;
};

struct nvmlBAR1Memory_t {
  unsigned long long bar1Total, bar1Free, bar1Used;
};

struct nvmlConfComputeMemSizeInfo_t {
  unsigned long long protectedMemSizeKib, unprotectedMemSizeKib;
};

struct nvmlProcessInfo_v1_t {
  unsigned pid;
  unsigned long long usedGpuMemory;
};

struct nvmlProcessInfo_v2_t {  // for the functions _v2 and _v3
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId, computeInstanceId;
};

struct nvmlUtilization_t {
  unsigned gpu, memory;  // percent
};

struct nvmlProcessUtilizationSample_t {
  unsigned pid;
  unsigned long long timeStamp;  // microseconds, CLOCK_REALTIME
  unsigned smUtil, memUtil, encUtil, decUtil;
};

struct nvmlTemperature_v1_t {
  unsigned version;
  nvmlTemperatureSensors_t sensorType;
  int temperature;
};
inline constexpr unsigned nvmlTemperature_v1 = StructVersion<nvmlTemperature_v1_t>(1);

struct nvmlMarginTemperature_v1_t {
  unsigned version;
  int marginTemperature;
};
inline constexpr unsigned nvmlMarginTemperature_v1 = StructVersion<nvmlMarginTemperature_v1_t>(1);

struct nvmlEccSramErrorStatus_v1_t {
  unsigned version;
  unsigned long long aggregateUncParity, aggregateUncSecDed, aggregateCor;
  unsigned long long volatileUncParity, volatileUncSecDed, volatileCor;
  unsigned long long aggregateUncBucketL2, aggregateUncBucketSm, aggregateUncBucketPcie;
  unsigned long long aggregateUncBucketMcu, aggregateUncBucketOther;
  unsigned bThresholdExceeded;
};
inline constexpr unsigned nvmlEccSramErrorStatus_v1 = StructVersion<nvmlEccSramErrorStatus_v1_t>(1);

struct nvmlPowerValue_v2_t {
  unsigned version;
  unsigned char powerScope;  // 0 = the GPU
  unsigned powerValueMw;
};
inline constexpr unsigned nvmlPowerValue_v2 = StructVersion<nvmlPowerValue_v2_t>(2);

struct nvmlRowRemapperHistogramValues_t {
  unsigned max, high, partial, low, none;
};

struct nvmlViolationTime_t {
  unsigned long long referenceTime, violationTime;  // microseconds, nanoseconds
};

union nvmlValue_t {
  double dVal;
  int siVal;
  unsigned uiVal;
  unsigned long ulVal;
  unsigned long long ullVal;
  long long sllVal;
  unsigned short usVal;
};

struct nvmlFieldValue_t {
  unsigned fieldId, scopeId;
  long long timestamp, latencyUsec;
  nvmlValueType_t valueType;
  nvmlReturn_t nvmlReturn;
  nvmlValue_t value;
};

struct nvmlEventData_t {
  nvmlDevice_t device;
  unsigned long long eventType, eventData;
  unsigned gpuInstanceId, computeInstanceId;
};

struct nvmlGpuInstancePlacement_t {
  unsigned start, size;  // slices of memory
};

struct nvmlGpuInstanceProfileInfo_t {
  unsigned id;
  unsigned isP2pSupported;
  unsigned sliceCount;     // of the multiprocessors
  unsigned instanceCount;  // the most that a device can have
  unsigned multiprocessorCount;
  unsigned copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
};

struct nvmlGpuInstanceProfileInfo_v2_t {
  unsigned version;
  unsigned id;
  unsigned isP2pSupported;
  unsigned sliceCount;
  unsigned instanceCount;
  unsigned multiprocessorCount;
  unsigned copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
  char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];  // "MIG 1g.10gb"
};
inline constexpr unsigned nvmlGpuInstanceProfileInfo_v2 = StructVersion<nvmlGpuInstanceProfileInfo_v2_t>(2);

struct nvmlGpuInstanceInfo_t {
  nvmlDevice_t device;
  unsigned id, profileId;
  nvmlGpuInstancePlacement_t placement;
};

struct nvmlComputeInstancePlacement_t {
  unsigned start, size;  // slices of multiprocessors, within the GPU instance
};

struct nvmlComputeInstanceProfileInfo_t {
  unsigned id;
  unsigned sliceCount;
  unsigned instanceCount;
  unsigned multiprocessorCount;
  unsigned sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
};

struct nvmlComputeInstanceInfo_t {
  nvmlDevice_t device;
  nvmlGpuInstance_t gpuInstance;
  unsigned id, profileId;
  nvmlComputeInstancePlacement_t placement;
};

struct nvmlDeviceAttributes_t {  // for a MIG device
  unsigned multiprocessorCount;
  unsigned sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
  unsigned gpuInstanceSliceCount, computeInstanceSliceCount;
  unsigned long long memorySizeMB;
};

// Every function, as X(since, name, parameters): the first driver branch that exports it (from the change log
// of the NVML documentation; 0: every branch that matters), its symbol and its parameter types. All return
// nvmlReturn_t. One line for each function: the build reads names and branches from here.
// clang-format off
#define GPUMAN_NVML_FUNCTIONS(X) \
  X(0, nvmlInit, (void)) \
  X(0, nvmlInit_v2, (void)) \
  X(0, nvmlInitWithFlags, (unsigned)) \
  X(0, nvmlShutdown, (void)) \
  X(0, nvmlSystemGetDriverVersion, (char*, unsigned)) \
  X(0, nvmlSystemGetNVMLVersion, (char*, unsigned)) \
  X(0, nvmlSystemGetCudaDriverVersion, (int*)) \
  X(0, nvmlSystemGetCudaDriverVersion_v2, (int*)) \
  X(0, nvmlSystemGetProcessName, (unsigned, char*, unsigned)) \
  X(0, nvmlUnitGetCount, (unsigned*)) \
  X(0, nvmlDeviceGetCount, (unsigned*)) \
  X(0, nvmlDeviceGetCount_v2, (unsigned*)) \
  X(0, nvmlDeviceGetHandleByIndex, (unsigned, nvmlDevice_t*)) \
  X(0, nvmlDeviceGetHandleByIndex_v2, (unsigned, nvmlDevice_t*)) \
  X(0, nvmlDeviceGetHandleByUUID, (const char*, nvmlDevice_t*)) \
  X(0, nvmlDeviceGetHandleBySerial, (const char*, nvmlDevice_t*)) \
  X(0, nvmlDeviceGetHandleByPciBusId, (const char*, nvmlDevice_t*)) \
  X(0, nvmlDeviceGetHandleByPciBusId_v2, (const char*, nvmlDevice_t*)) \
  X(0, nvmlDeviceGetName, (nvmlDevice_t, char*, unsigned)) \
  X(0, nvmlDeviceGetBrand, (nvmlDevice_t, nvmlBrandType_t*)) \
  X(0, nvmlDeviceGetIndex, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetSerial, (nvmlDevice_t, char*, unsigned)) \
  X(0, nvmlDeviceGetUUID, (nvmlDevice_t, char*, unsigned)) \
  X(0, nvmlDeviceGetMinorNumber, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetPciInfo, (nvmlDevice_t, nvmlPciInfo_t*)) \
  X(0, nvmlDeviceGetPciInfo_v3, (nvmlDevice_t, nvmlPciInfo_t*)) \
  X(450, nvmlDeviceGetArchitecture, (nvmlDevice_t, nvmlDeviceArchitecture_t*)) \
  X(0, nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t, int*, int*)) \
  X(510, nvmlDeviceGetNumGpuCores, (nvmlDevice_t, unsigned*)) \
  X(510, nvmlDeviceGetMemoryBusWidth, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetVbiosVersion, (nvmlDevice_t, char*, unsigned)) \
  X(0, nvmlDeviceGetBoardId, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetBoardPartNumber, (nvmlDevice_t, char*, unsigned)) \
  X(0, nvmlDeviceGetInforomImageVersion, (nvmlDevice_t, char*, unsigned)) \
  X(0, nvmlDeviceGetMultiGpuBoard, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetVirtualizationMode, (nvmlDevice_t, nvmlGpuVirtualizationMode_t*)) \
  X(525, nvmlDeviceGetGspFirmwareVersion, (nvmlDevice_t, char*)) \
  X(0, nvmlDeviceGetDisplayMode, (nvmlDevice_t, nvmlEnableState_t*)) \
  X(0, nvmlDeviceGetDisplayActive, (nvmlDevice_t, nvmlEnableState_t*)) \
  X(0, nvmlDeviceGetDriverModel, (nvmlDevice_t, nvmlDriverModel_t*, nvmlDriverModel_t*)) \
  X(0, nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t*)) \
  X(510, nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t, nvmlMemory_v2_t*)) \
  X(615, nvmlDeviceSetMemoryLimits_v1, (nvmlDevice_t, nvmlSetMemoryLimits_v1_t*)) \
  X(615, nvmlDeviceGetMemoryLimits_v1, (nvmlDevice_t, nvmlGetMemoryLimits_v1_t*)) \
  X(0, nvmlDeviceGetBAR1MemoryInfo, (nvmlDevice_t, nvmlBAR1Memory_t*)) \
  X(535, nvmlDeviceGetConfComputeMemSizeInfo, (nvmlDevice_t, nvmlConfComputeMemSizeInfo_t*)) \
  X(0, nvmlDeviceGetComputeRunningProcesses, (nvmlDevice_t, unsigned*, nvmlProcessInfo_v1_t*)) \
  X(450, nvmlDeviceGetComputeRunningProcesses_v2, (nvmlDevice_t, unsigned*, nvmlProcessInfo_v2_t*)) \
  X(510, nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned*, nvmlProcessInfo_v2_t*)) \
  X(0, nvmlDeviceGetGraphicsRunningProcesses, (nvmlDevice_t, unsigned*, nvmlProcessInfo_v1_t*)) \
  X(450, nvmlDeviceGetGraphicsRunningProcesses_v2, (nvmlDevice_t, unsigned*, nvmlProcessInfo_v2_t*)) \
  X(510, nvmlDeviceGetGraphicsRunningProcesses_v3, (nvmlDevice_t, unsigned*, nvmlProcessInfo_v2_t*)) \
  X(510, nvmlDeviceGetMPSComputeRunningProcesses_v3, (nvmlDevice_t, unsigned*, nvmlProcessInfo_v2_t*)) \
  X(0, nvmlDeviceGetUtilizationRates, (nvmlDevice_t, nvmlUtilization_t*)) \
  X(0, nvmlDeviceGetProcessUtilization, (nvmlDevice_t, nvmlProcessUtilizationSample_t*, unsigned*, unsigned long long)) \
  X(0, nvmlDeviceGetEncoderUtilization, (nvmlDevice_t, unsigned*, unsigned*)) \
  X(0, nvmlDeviceGetDecoderUtilization, (nvmlDevice_t, unsigned*, unsigned*)) \
  X(0, nvmlDeviceGetClockInfo, (nvmlDevice_t, nvmlClockType_t, unsigned*)) \
  X(0, nvmlDeviceGetMaxClockInfo, (nvmlDevice_t, nvmlClockType_t, unsigned*)) \
  X(0, nvmlDeviceGetClock, (nvmlDevice_t, nvmlClockType_t, nvmlClockId_t, unsigned*)) \
  X(0, nvmlDeviceGetApplicationsClock, (nvmlDevice_t, nvmlClockType_t, unsigned*)) \
  X(0, nvmlDeviceGetDefaultApplicationsClock, (nvmlDevice_t, nvmlClockType_t, unsigned*)) \
  X(0, nvmlDeviceGetSupportedMemoryClocks, (nvmlDevice_t, unsigned*, unsigned*)) \
  X(0, nvmlDeviceGetSupportedGraphicsClocks, (nvmlDevice_t, unsigned, unsigned*, unsigned*)) \
  X(0, nvmlDeviceSetGpuLockedClocks, (nvmlDevice_t, unsigned, unsigned)) \
  X(0, nvmlDeviceResetGpuLockedClocks, (nvmlDevice_t)) \
  X(465, nvmlDeviceSetMemoryLockedClocks, (nvmlDevice_t, unsigned, unsigned)) \
  X(465, nvmlDeviceResetMemoryLockedClocks, (nvmlDevice_t)) \
  X(0, nvmlDeviceSetApplicationsClocks, (nvmlDevice_t, unsigned, unsigned)) \
  X(0, nvmlDeviceResetApplicationsClocks, (nvmlDevice_t)) \
  X(0, nvmlDeviceGetPowerUsage, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetPowerManagementMode, (nvmlDevice_t, nvmlEnableState_t*)) \
  X(0, nvmlDeviceGetPowerManagementLimit, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetPowerManagementLimitConstraints, (nvmlDevice_t, unsigned*, unsigned*)) \
  X(0, nvmlDeviceGetPowerManagementDefaultLimit, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceSetPowerManagementLimit, (nvmlDevice_t, unsigned)) \
  X(535, nvmlDeviceSetPowerManagementLimit_v2, (nvmlDevice_t, nvmlPowerValue_v2_t*)) \
  X(0, nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t, unsigned long long*)) \
  X(0, nvmlDeviceGetTemperature, (nvmlDevice_t, nvmlTemperatureSensors_t, unsigned*)) \
  X(570, nvmlDeviceGetTemperatureV, (nvmlDevice_t, nvmlTemperature_v1_t*)) \
  X(570, nvmlDeviceGetMarginTemperature, (nvmlDevice_t, nvmlMarginTemperature_v1_t*)) \
  X(0, nvmlDeviceGetTemperatureThreshold, (nvmlDevice_t, nvmlTemperatureThresholds_t, unsigned*)) \
  X(0, nvmlDeviceGetFanSpeed, (nvmlDevice_t, unsigned*)) \
  X(510, nvmlDeviceGetNumFans, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetEccMode, (nvmlDevice_t, nvmlEnableState_t*, nvmlEnableState_t*)) \
  X(510, nvmlDeviceGetDefaultEccMode, (nvmlDevice_t, nvmlEnableState_t*)) \
  X(0, nvmlDeviceSetEccMode, (nvmlDevice_t, nvmlEnableState_t)) \
  X(0, nvmlDeviceGetTotalEccErrors, (nvmlDevice_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t, unsigned long long*)) \
  X(0, nvmlDeviceGetMemoryErrorCounter, (nvmlDevice_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t, nvmlMemoryLocation_t, unsigned long long*)) \
  X(0, nvmlDeviceClearEccErrorCounts, (nvmlDevice_t, nvmlEccCounterType_t)) \
  X(550, nvmlDeviceGetSramEccErrorStatus, (nvmlDevice_t, nvmlEccSramErrorStatus_v1_t*)) \
  X(450, nvmlDeviceGetRemappedRows, (nvmlDevice_t, unsigned*, unsigned*, unsigned*, unsigned*)) \
  X(460, nvmlDeviceGetRowRemapperHistogram, (nvmlDevice_t, nvmlRowRemapperHistogramValues_t*)) \
  X(0, nvmlDeviceGetRetiredPages, (nvmlDevice_t, nvmlPageRetirementCause_t, unsigned*, unsigned long long*)) \
  X(0, nvmlDeviceGetRetiredPagesPendingStatus, (nvmlDevice_t, nvmlEnableState_t*)) \
  X(0, nvmlDeviceGetCurrPcieLinkGeneration, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetMaxPcieLinkGeneration, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetCurrPcieLinkWidth, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetMaxPcieLinkWidth, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetPcieReplayCounter, (nvmlDevice_t, unsigned*)) \
  X(0, nvmlDeviceGetPcieThroughput, (nvmlDevice_t, nvmlPcieUtilCounter_t, unsigned*)) \
  X(0, nvmlDeviceGetPersistenceMode, (nvmlDevice_t, nvmlEnableState_t*)) \
  X(0, nvmlDeviceSetPersistenceMode, (nvmlDevice_t, nvmlEnableState_t)) \
  X(0, nvmlDeviceGetComputeMode, (nvmlDevice_t, nvmlComputeMode_t*)) \
  X(0, nvmlDeviceSetComputeMode, (nvmlDevice_t, nvmlComputeMode_t)) \
  X(0, nvmlDeviceGetPerformanceState, (nvmlDevice_t, nvmlPstates_t*)) \
  X(535, nvmlDeviceGetCurrentClocksEventReasons, (nvmlDevice_t, unsigned long long*)) \
  X(535, nvmlDeviceGetSupportedClocksEventReasons, (nvmlDevice_t, unsigned long long*)) \
  X(0, nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t, unsigned long long*)) \
  X(0, nvmlDeviceGetSupportedClocksThrottleReasons, (nvmlDevice_t, unsigned long long*)) \
  X(0, nvmlDeviceGetViolationStatus, (nvmlDevice_t, nvmlPerfPolicyType_t, nvmlViolationTime_t*)) \
  X(0, nvmlDeviceGetAccountingMode, (nvmlDevice_t, nvmlEnableState_t*)) \
  X(450, nvmlDeviceGetMigMode, (nvmlDevice_t, unsigned*, unsigned*)) \
  X(450, nvmlDeviceSetMigMode, (nvmlDevice_t, unsigned, nvmlReturn_t*)) \
  X(450, nvmlDeviceIsMigDeviceHandle, (nvmlDevice_t, unsigned*)) \
  X(450, nvmlDeviceGetGpuInstanceId, (nvmlDevice_t, unsigned*)) \
  X(450, nvmlDeviceGetComputeInstanceId, (nvmlDevice_t, unsigned*)) \
  X(450, nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t, unsigned*)) \
  X(450, nvmlDeviceGetMigDeviceHandleByIndex, (nvmlDevice_t, unsigned, nvmlDevice_t*)) \
  X(450, nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (nvmlDevice_t, nvmlDevice_t*)) \
  X(450, nvmlDeviceGetAttributes_v2, (nvmlDevice_t, nvmlDeviceAttributes_t*)) \
  X(450, nvmlDeviceGetGpuInstanceProfileInfo, (nvmlDevice_t, unsigned, nvmlGpuInstanceProfileInfo_t*)) \
  X(510, nvmlDeviceGetGpuInstanceProfileInfoV, (nvmlDevice_t, unsigned, nvmlGpuInstanceProfileInfo_v2_t*)) \
  X(470, nvmlDeviceGetGpuInstancePossiblePlacements_v2, (nvmlDevice_t, unsigned, nvmlGpuInstancePlacement_t*, unsigned*)) \
  X(450, nvmlDeviceGetGpuInstanceRemainingCapacity, (nvmlDevice_t, unsigned, unsigned*)) \
  X(450, nvmlDeviceCreateGpuInstance, (nvmlDevice_t, unsigned, nvmlGpuInstance_t*)) \
  X(470, nvmlDeviceCreateGpuInstanceWithPlacement, (nvmlDevice_t, unsigned, const nvmlGpuInstancePlacement_t*, nvmlGpuInstance_t*)) \
  X(450, nvmlGpuInstanceDestroy, (nvmlGpuInstance_t)) \
  X(450, nvmlDeviceGetGpuInstances, (nvmlDevice_t, unsigned, nvmlGpuInstance_t*, unsigned*)) \
  X(450, nvmlDeviceGetGpuInstanceById, (nvmlDevice_t, unsigned, nvmlGpuInstance_t*)) \
  X(450, nvmlGpuInstanceGetInfo, (nvmlGpuInstance_t, nvmlGpuInstanceInfo_t*)) \
  X(450, nvmlGpuInstanceGetComputeInstanceProfileInfo, (nvmlGpuInstance_t, unsigned, unsigned, nvmlComputeInstanceProfileInfo_t*)) \
  X(450, nvmlGpuInstanceCreateComputeInstance, (nvmlGpuInstance_t, unsigned, nvmlComputeInstance_t*)) \
  X(450, nvmlComputeInstanceDestroy, (nvmlComputeInstance_t)) \
  X(450, nvmlGpuInstanceGetComputeInstances, (nvmlGpuInstance_t, unsigned, nvmlComputeInstance_t*, unsigned*)) \
  X(460, nvmlComputeInstanceGetInfo_v2, (nvmlComputeInstance_t, nvmlComputeInstanceInfo_t*)) \
  X(0, nvmlEventSetCreate, (nvmlEventSet_t*)) \
  X(0, nvmlDeviceRegisterEvents, (nvmlDevice_t, unsigned long long, nvmlEventSet_t)) \
  X(0, nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t, unsigned long long*)) \
  X(0, nvmlEventSetWait, (nvmlEventSet_t, nvmlEventData_t*, unsigned)) \
  X(450, nvmlEventSetWait_v2, (nvmlEventSet_t, nvmlEventData_t*, unsigned)) \
  X(0, nvmlEventSetFree, (nvmlEventSet_t)) \
  X(0, nvmlDeviceGetFieldValues, (nvmlDevice_t, int, nvmlFieldValue_t*)) \
  X(0, nvmlDeviceGetNvLinkState, (nvmlDevice_t, unsigned, nvmlEnableState_t*)) \
  X(0, nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t, unsigned, nvmlPciInfo_t*)) \
  X(0, nvmlDeviceGetP2PStatus, (nvmlDevice_t, nvmlDevice_t, nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t*)) \
  X(0, nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t, nvmlDevice_t, nvmlGpuTopologyLevel_t*)) \
  X(550, nvmlDeviceGetNumaNodeId, (nvmlDevice_t, unsigned*)) \
  X(570, nvmlDeviceGetModuleId, (nvmlDevice_t, unsigned*))
// clang-format on

// The type of each function, as abi::fn::nvmlInit_v2.
namespace fn {
#define GPUMAN_NVML_TYPE(since, name, parameters) using name = nvmlReturn_t parameters;
GPUMAN_NVML_FUNCTIONS(GPUMAN_NVML_TYPE)
#undef GPUMAN_NVML_TYPE
}  // namespace fn

// The only function that returns something else.
using nvmlErrorString_fn = const char*(nvmlReturn_t);

}  // namespace gpuman::driver::abi
