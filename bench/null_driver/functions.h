// The functions of the driver, twins included, that this library exports.
#pragma once

#include "driver/abi/cuda.h"

// The functions ignore their parameters. This is not an option of the target, since clang uses the last
// option.
#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace gpuman::driver::abi {

#pragma GCC visibility push(default)
extern "C" {
#define GPUMAN_NULL_NONE(symbol, parameters)
#define GPUMAN_NULL_PTDS(symbol, parameters) CUresult symbol##_ptds parameters;
#define GPUMAN_NULL_PTSZ(symbol, parameters) CUresult symbol##_ptsz parameters;
#define GPUMAN_NULL_ROW(name, symbol, version, twin, parameters, arguments) \
  CUresult symbol parameters;                                               \
  GPUMAN_NULL_##twin(symbol, parameters)
GPUMAN_CUDA_FUNCTIONS(GPUMAN_NULL_ROW)
#undef GPUMAN_NULL_ROW
#undef GPUMAN_NULL_PTSZ
#undef GPUMAN_NULL_PTDS
#undef GPUMAN_NULL_NONE
}
#pragma GCC visibility pop

}  // namespace gpuman::driver::abi
