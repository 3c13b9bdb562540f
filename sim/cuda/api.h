// The exported functions, declared from the list: a definition that differs from it does not compile.
#pragma once

#include "sim/cuda/call.h"

namespace gpuman::sim::cuda {

extern "C" {
#define GPUMAN_SIM_DECLARE(name, symbol, version, twin, parameters, arguments) \
  __attribute__((visibility("default"))) CUresult symbol parameters;
GPUMAN_CUDA_FUNCTIONS(GPUMAN_SIM_DECLARE)
#undef GPUMAN_SIM_DECLARE
}

}  // namespace gpuman::sim::cuda
