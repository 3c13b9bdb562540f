// NVML's exported functions, for the conformance tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "conformance.h"
#include "driver/abi/nvml.h"

namespace gpuman::conformance {

struct NvmlFunctions {
#define GPUMAN_NVML_POINTER(since, name, parameters) abi::fn::name* name = nullptr;
  GPUMAN_NVML_FUNCTIONS(GPUMAN_NVML_POINTER)
#undef GPUMAN_NVML_POINTER
};

// Loaded once; functions that the library lacks are null, and all are without a library.
const NvmlFunctions& Nvml();

std::string NvmlName(abi::nvmlReturn_t result);
void Fact(const std::string& key, abi::nvmlReturn_t value);

// Like Call, for NVML: a missing function returns FUNCTION_NOT_FOUND.
template <typename... Parameters, typename... Arguments>
abi::nvmlReturn_t CallNvml(abi::nvmlReturn_t (*function)(Parameters...), Arguments... arguments) {
  return function ? function(arguments...) : abi::NVML_ERROR_FUNCTION_NOT_FOUND;
}
#define ML(name, ...) \
  ::gpuman::conformance::CallNvml(::gpuman::conformance::Nvml().name __VA_OPT__(, ) __VA_ARGS__)
#define EXPECT_ML(expected, call) EXPECT_EQ(#expected, ::gpuman::conformance::NvmlName(call))

// The device that CUDA calls 0.
abi::nvmlDevice_t NvmlDeviceOfCuda();
// The memory that NVML counts for a process on that device; nullopt if the process is not in the list.
std::optional<std::uint64_t> NvmlMemoryOf(int pid);

}  // namespace gpuman::conformance
