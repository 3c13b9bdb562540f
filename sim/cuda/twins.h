// Declares symbol_ptds or symbol_ptsz for each function that has a twin.
#pragma once

#include "sim/cuda/device.h"

namespace gpuman::sim::cuda {

extern "C" {
#define GPUMAN_SIM_DECLARE_TWIN(symbol, suffix, parameters) \
  __attribute__((visibility("default"))) CUresult symbol##suffix parameters;
#define GPUMAN_SIM_NONE(symbol, parameters)
#define GPUMAN_SIM_PTDS(symbol, parameters) GPUMAN_SIM_DECLARE_TWIN(symbol, _ptds, parameters)
#define GPUMAN_SIM_PTSZ(symbol, parameters) GPUMAN_SIM_DECLARE_TWIN(symbol, _ptsz, parameters)
#define GPUMAN_SIM_DECLARE(name, symbol, version, twin, parameters, arguments) \
  GPUMAN_SIM_##twin(symbol, parameters)
GPUMAN_CUDA_FUNCTIONS(GPUMAN_SIM_DECLARE)
#undef GPUMAN_SIM_DECLARE
#undef GPUMAN_SIM_PTSZ
#undef GPUMAN_SIM_PTDS
#undef GPUMAN_SIM_NONE
#undef GPUMAN_SIM_DECLARE_TWIN
}

}  // namespace gpuman::sim::cuda
