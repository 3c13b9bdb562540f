// One call of NVML; a failure only means that there is no answer.
#pragma once

#include "driver/abi/nvml.h"

namespace gpuman::gpu {

// Whether `function` succeeded. An old driver may lack it (null).
template <typename... Parameters, typename... Arguments>
bool CallNvml(driver::abi::nvmlReturn_t (*function)(Parameters...), Arguments... arguments) {
  return function != nullptr && function(arguments...) == driver::abi::NVML_SUCCESS;
}

}  // namespace gpuman::gpu
