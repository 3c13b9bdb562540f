// The getters that this device supports: a table for the H200, facts for others. The test calls no setter.

#include <array>
#include <functional>
#include <map>

#include "nvml_library.h"

namespace gpuman::conformance {
namespace {

// Every getter of the table that takes a device and pointers to one or two numbers, by name.
using Getter = std::function<abi::nvmlReturn_t(abi::nvmlDevice_t)>;

std::map<std::string, Getter> Getters() {
  static unsigned a, b, c, d;
  static unsigned long long big;
  static abi::nvmlEnableState_t x, y;
  static std::array<char, 128> text;
  static std::array<unsigned, 256> list;
  static std::array<unsigned long long, 64> pages;
#define ONE(name)                                              \
  {                                                            \
#name, [](abi::nvmlDevice_t n) { return ML(name, n, &a); } \
  }
#define STATE(name)                                            \
  {                                                            \
#name, [](abi::nvmlDevice_t n) { return ML(name, n, &x); } \
  }
#define STATES(name)                                               \
  {                                                                \
#name, [](abi::nvmlDevice_t n) { return ML(name, n, &x, &y); } \
  }
#define BIG(name)                                                \
  {                                                              \
#name, [](abi::nvmlDevice_t n) { return ML(name, n, &big); } \
  }
#define TEXT(name)                                                           \
  {                                                                          \
#name, [](abi::nvmlDevice_t n) { return ML(name, n, text.data(), 80u); } \
  }
  return {
      TEXT(nvmlDeviceGetSerial),
      TEXT(nvmlDeviceGetVbiosVersion),
      TEXT(nvmlDeviceGetBoardPartNumber),
      TEXT(nvmlDeviceGetInforomImageVersion),
      {"nvmlDeviceGetGspFirmwareVersion",
       [](abi::nvmlDevice_t n) { return ML(nvmlDeviceGetGspFirmwareVersion, n, text.data()); }},
      ONE(nvmlDeviceGetMinorNumber),
      ONE(nvmlDeviceGetArchitecture),
      ONE(nvmlDeviceGetNumGpuCores),
      ONE(nvmlDeviceGetMemoryBusWidth),
      ONE(nvmlDeviceGetBoardId),
      ONE(nvmlDeviceGetMultiGpuBoard),
      ONE(nvmlDeviceGetModuleId),
      ONE(nvmlDeviceGetNumaNodeId),
      STATE(nvmlDeviceGetDisplayMode),
      STATE(nvmlDeviceGetDisplayActive),
      {"nvmlDeviceGetDriverModel",
       [](abi::nvmlDevice_t n) {
         static abi::nvmlDriverModel_t now, pending;
         return ML(nvmlDeviceGetDriverModel, n, &now, &pending);
       }},
      {"nvmlDeviceGetVirtualizationMode",
       [](abi::nvmlDevice_t n) {
         static abi::nvmlGpuVirtualizationMode_t mode;
         return ML(nvmlDeviceGetVirtualizationMode, n, &mode);
       }},
      {"nvmlDeviceGetBAR1MemoryInfo",
       [](abi::nvmlDevice_t n) {
         static abi::nvmlBAR1Memory_t memory;
         return ML(nvmlDeviceGetBAR1MemoryInfo, n, &memory);
       }},
      {"nvmlDeviceGetEncoderUtilization",
       [](abi::nvmlDevice_t n) { return ML(nvmlDeviceGetEncoderUtilization, n, &a, &b); }},
      {"nvmlDeviceGetDecoderUtilization",
       [](abi::nvmlDevice_t n) { return ML(nvmlDeviceGetDecoderUtilization, n, &a, &b); }},
      {"nvmlDeviceGetClockInfo",
       [](abi::nvmlDevice_t n) { return ML(nvmlDeviceGetClockInfo, n, abi::NVML_CLOCK_SM, &a); }},
      {"nvmlDeviceGetMaxClockInfo",
       [](abi::nvmlDevice_t n) { return ML(nvmlDeviceGetMaxClockInfo, n, abi::NVML_CLOCK_SM, &a); }},
      {"nvmlDeviceGetApplicationsClock",
       [](abi::nvmlDevice_t n) { return ML(nvmlDeviceGetApplicationsClock, n, abi::NVML_CLOCK_SM, &a); }},
      {"nvmlDeviceGetDefaultApplicationsClock",
       [](abi::nvmlDevice_t n) {
         return ML(nvmlDeviceGetDefaultApplicationsClock, n, abi::NVML_CLOCK_SM, &a);
       }},
      {"nvmlDeviceGetSupportedMemoryClocks",
       [](abi::nvmlDevice_t n) {
         a = list.size();
         return ML(nvmlDeviceGetSupportedMemoryClocks, n, &a, list.data());
       }},
      ONE(nvmlDeviceGetPowerUsage),
      STATE(nvmlDeviceGetPowerManagementMode),
      ONE(nvmlDeviceGetPowerManagementLimit),
      ONE(nvmlDeviceGetPowerManagementDefaultLimit),
      ONE(nvmlDeviceGetEnforcedPowerLimit),
      {"nvmlDeviceGetPowerManagementLimitConstraints",
       [](abi::nvmlDevice_t n) { return ML(nvmlDeviceGetPowerManagementLimitConstraints, n, &a, &b); }},
      BIG(nvmlDeviceGetTotalEnergyConsumption),
      {"nvmlDeviceGetTemperature",
       [](abi::nvmlDevice_t n) { return ML(nvmlDeviceGetTemperature, n, abi::NVML_TEMPERATURE_GPU, &a); }},
      {"nvmlDeviceGetTemperatureV",
       [](abi::nvmlDevice_t n) {
         static abi::nvmlTemperature_v1_t t;
         t.version = abi::nvmlTemperature_v1;
         t.sensorType = abi::NVML_TEMPERATURE_GPU;
         return ML(nvmlDeviceGetTemperatureV, n, &t);
       }},
      {"nvmlDeviceGetMarginTemperature",
       [](abi::nvmlDevice_t n) {
         static abi::nvmlMarginTemperature_v1_t t;
         t.version = abi::nvmlMarginTemperature_v1;
         return ML(nvmlDeviceGetMarginTemperature, n, &t);
       }},
      {"nvmlDeviceGetTemperatureThreshold.shutdown",
       [](abi::nvmlDevice_t n) {
         return ML(nvmlDeviceGetTemperatureThreshold, n, abi::NVML_TEMPERATURE_THRESHOLD_SHUTDOWN, &a);
       }},
      {"nvmlDeviceGetTemperatureThreshold.slowdown",
       [](abi::nvmlDevice_t n) {
         return ML(nvmlDeviceGetTemperatureThreshold, n, abi::NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, &a);
       }},
      ONE(nvmlDeviceGetFanSpeed),
      ONE(nvmlDeviceGetNumFans),
      STATES(nvmlDeviceGetEccMode),
      STATE(nvmlDeviceGetDefaultEccMode),
      {"nvmlDeviceGetTotalEccErrors",
       [](abi::nvmlDevice_t n) {
         return ML(nvmlDeviceGetTotalEccErrors, n, abi::NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                   abi::NVML_VOLATILE_ECC, &big);
       }},
      {"nvmlDeviceGetMemoryErrorCounter.dram",
       [](abi::nvmlDevice_t n) {
         return ML(nvmlDeviceGetMemoryErrorCounter, n, abi::NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                   abi::NVML_VOLATILE_ECC, abi::NVML_MEMORY_LOCATION_DRAM, &big);
       }},
      {"nvmlDeviceGetMemoryErrorCounter.l1",
       [](abi::nvmlDevice_t n) {
         return ML(nvmlDeviceGetMemoryErrorCounter, n, abi::NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                   abi::NVML_VOLATILE_ECC, abi::NVML_MEMORY_LOCATION_L1_CACHE, &big);
       }},
      {"nvmlDeviceGetRemappedRows",
       [](abi::nvmlDevice_t n) { return ML(nvmlDeviceGetRemappedRows, n, &a, &b, &c, &d); }},
      {"nvmlDeviceGetRowRemapperHistogram",
       [](abi::nvmlDevice_t n) {
         static abi::nvmlRowRemapperHistogramValues_t values;
         return ML(nvmlDeviceGetRowRemapperHistogram, n, &values);
       }},
      {"nvmlDeviceGetRetiredPages",
       [](abi::nvmlDevice_t n) {
         a = pages.size();
         return ML(nvmlDeviceGetRetiredPages, n, abi::NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR, &a,
                   pages.data());
       }},
      STATE(nvmlDeviceGetRetiredPagesPendingStatus),
      ONE(nvmlDeviceGetCurrPcieLinkGeneration),
      ONE(nvmlDeviceGetMaxPcieLinkGeneration),
      ONE(nvmlDeviceGetCurrPcieLinkWidth),
      ONE(nvmlDeviceGetMaxPcieLinkWidth),
      ONE(nvmlDeviceGetPcieReplayCounter),
      {"nvmlDeviceGetPcieThroughput",
       [](abi::nvmlDevice_t n) {
         return ML(nvmlDeviceGetPcieThroughput, n, abi::NVML_PCIE_UTIL_TX_BYTES, &a);
       }},
      STATE(nvmlDeviceGetPersistenceMode),
      {"nvmlDeviceGetComputeMode",
       [](abi::nvmlDevice_t n) {
         static abi::nvmlComputeMode_t mode;
         return ML(nvmlDeviceGetComputeMode, n, &mode);
       }},
      {"nvmlDeviceGetPerformanceState",
       [](abi::nvmlDevice_t n) {
         static abi::nvmlPstates_t state;
         return ML(nvmlDeviceGetPerformanceState, n, &state);
       }},
      BIG(nvmlDeviceGetCurrentClocksEventReasons),
      BIG(nvmlDeviceGetSupportedClocksEventReasons),
      BIG(nvmlDeviceGetCurrentClocksThrottleReasons),
      {"nvmlDeviceGetViolationStatus.power",
       [](abi::nvmlDevice_t n) {
         static abi::nvmlViolationTime_t time;
         return ML(nvmlDeviceGetViolationStatus, n, abi::NVML_PERF_POLICY_POWER, &time);
       }},
      STATE(nvmlDeviceGetAccountingMode),
      {"nvmlDeviceGetMigMode", [](abi::nvmlDevice_t n) { return ML(nvmlDeviceGetMigMode, n, &a, &b); }},
      ONE(nvmlDeviceGetMaxMigDeviceCount),
      ONE(nvmlDeviceIsMigDeviceHandle),
      {"nvmlDeviceGetNvLinkState.0",
       [](abi::nvmlDevice_t n) { return ML(nvmlDeviceGetNvLinkState, n, 0u, &x); }},
  };
#undef ONE
#undef STATE
#undef STATES
#undef BIG
#undef TEXT
}

// The getters that an H200 does not support; it supports all others.
const std::map<std::string, std::string>& RefusedByTheH200() {
  static const std::map<std::string, std::string> refused{
      {"nvmlDeviceGetMemoryErrorCounter.l1", "NVML_ERROR_NOT_SUPPORTED"},
      {"nvmlDeviceGetNumaNodeId", "NVML_ERROR_NOT_SUPPORTED"},
      {"nvmlDeviceGetDriverModel", "NVML_ERROR_NOT_SUPPORTED"},
      {"nvmlDeviceGetFanSpeed", "NVML_ERROR_NOT_SUPPORTED"},
      {"nvmlDeviceGetRetiredPages", "NVML_ERROR_NOT_SUPPORTED"},
      {"nvmlDeviceGetRetiredPagesPendingStatus", "NVML_ERROR_NOT_SUPPORTED"},
  };
  return refused;
}

class NvmlSupport : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(NvmlName(ML(nvmlInit_v2)), "NVML_SUCCESS");
    ASSERT_EQ(NvmlName(ML(nvmlDeviceGetHandleByIndex_v2, 0u, &device_)), "NVML_SUCCESS");
    std::array<char, 96> name{};
    ML(nvmlDeviceGetName, device_, name.data(), 96u);
    h200_ = std::string(name.data()).find("H200") != std::string::npos;
  }
  void TearDown() override { ML(nvmlShutdown); }
  abi::nvmlDevice_t device_ = nullptr;
  bool h200_ = false;
};

TEST_F(NvmlSupport, EachGetterAnswersAsOnTheDevice) {
  for (const auto& [name, get] : Getters()) {
    const auto result = NvmlName(get(device_));
    Fact("support." + name, result);
    const bool differs_by_host = name == "nvmlDeviceGetNvLinkState.0";
    if (!h200_ || differs_by_host) continue;
    const auto refused = RefusedByTheH200().find(name);
    EXPECT_EQ(result, refused == RefusedByTheH200().end() ? "NVML_SUCCESS" : refused->second) << name;
  }
}

TEST_F(NvmlSupport, FieldValuesAnswerEachForItself) {
  const std::map<unsigned, const char*> fields{{abi::NVML_FI_DEV_ECC_CURRENT, "ecc_current"},
                                               {abi::NVML_FI_DEV_MEMORY_TEMP, "memory_temperature"},
                                               {abi::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, "energy"},
                                               {abi::NVML_FI_DEV_NVLINK_LINK_COUNT, "nvlinks"},
                                               {abi::NVML_FI_DEV_PCIE_REPLAY_COUNTER, "pcie_replays"},
                                               {abi::NVML_FI_DEV_REMAPPED_PENDING, "remap_pending"},
                                               {abi::NVML_FI_DEV_POWER_AVERAGE, "power_average"},
                                               {abi::NVML_FI_DEV_POWER_INSTANT, "power_instant"},
                                               {abi::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, "recovery_action"},
                                               {9999, "unknown"}};
  std::vector<abi::nvmlFieldValue_t> values;
  for (const auto& [id, name] : fields) {
    abi::nvmlFieldValue_t value{};
    value.fieldId = id;
    values.push_back(value);
  }
  EXPECT_ML(NVML_SUCCESS,
            ML(nvmlDeviceGetFieldValues, device_, static_cast<int>(values.size()), values.data()));
  for (const auto& value : values)
    Fact(std::string("field.") + fields.at(value.fieldId),
         NvmlName(value.nvmlReturn) + ", type " + std::to_string(static_cast<int>(value.valueType)));
  EXPECT_NE(values.back().nvmlReturn, abi::NVML_SUCCESS);
}

TEST_F(NvmlSupport, EveryFunctionOfThisDriverIsThere) {
  std::array<char, 80> version{};
  ASSERT_EQ(NvmlName(ML(nvmlSystemGetDriverVersion, version.data(), 80u)), "NVML_SUCCESS");
  const int branch = std::stoi(version.data());
#define GPUMAN_NVML_CHECK(since, name, parameters) \
  if (since <= branch && !Nvml().name) ADD_FAILURE() << #name;
  GPUMAN_NVML_FUNCTIONS(GPUMAN_NVML_CHECK)
#undef GPUMAN_NVML_CHECK
}

}  // namespace
}  // namespace gpuman::conformance
