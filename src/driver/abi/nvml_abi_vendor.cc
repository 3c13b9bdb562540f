#include <cstddef>

#include "driver/abi/abi_facts.h"
#include "driver/abi/nvml.h"  // first: the vendor's header makes macros of some of our names
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

using gpuman::driver::abi::Facts;
using gpuman::driver::abi::Shape;
using gpuman::driver::abi::Signature;

#ifndef NVML_DEVICE_MEMORY_LIMIT_MAX  // a header before CUDA 13.5: it has nothing to compare these with
using gpuman::driver::abi::NVML_DEVICE_MEMORY_LIMIT_MAX;
using gpuman::driver::abi::nvmlGetMemoryLimits_v1_t;
using gpuman::driver::abi::nvmlSetMemoryLimits_v1_t;
nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t, nvmlSetMemoryLimits_v1_t*);
nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t, nvmlGetMemoryLimits_v1_t*);
#endif

// We use functions that the vendor has deprecated: older drivers have nothing else.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

Facts VendorNvmlFacts() {
  Facts facts;
#define VALUE(name) facts[#name] = std::to_string(static_cast<long long>(name));
#define STRUCT(type) facts["sizeof " #type] = std::to_string(sizeof(::type));
#define FIELD(type, field) \
  facts[#type "::" #field] = std::to_string(offsetof(::type, field)) + ":" + Shape<decltype(::type::field)>();
#include "driver/abi/nvml_facts.inc"
#define RETURN(name, value, text) facts[#name] = std::to_string(static_cast<long long>(::name));
  GPUMAN_NVML_RETURNS(RETURN)
#define FUNCTION(since, name, parameters) facts[#name "()"] = Signature<decltype(::name)>::Text();
  GPUMAN_NVML_FUNCTIONS(FUNCTION)
  facts["nvmlErrorString()"] = Signature<decltype(::nvmlErrorString)>::Text();
  return facts;
}
