// The entry points: every function of the product's list (driver/abi/nvml.h), with C linkage. The version
// script of a driver version's library chooses which of them it exports.
#pragma once

#include "driver/abi/nvml.h"

namespace gpuman::driver::abi {

extern "C" {
#define GPUMAN_NVML_EXPORT(since, name, parameters) __attribute__((visibility("default"))) fn::name name;
GPUMAN_NVML_FUNCTIONS(GPUMAN_NVML_EXPORT)
#undef GPUMAN_NVML_EXPORT
__attribute__((visibility("default"))) nvmlErrorString_fn nvmlErrorString;
}

}  // namespace gpuman::driver::abi
