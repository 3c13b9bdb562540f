// Every function of the driver: does nothing and returns success. These are weak: answers.cc has the
// functions that must answer something.
#include "functions.h"

namespace gpuman::driver::abi {
extern "C" {

#define GPUMAN_NULL_DEFINE(symbol, parameters) \
  __attribute__((weak)) CUresult symbol parameters { return CUDA_SUCCESS; }
#define GPUMAN_NULL_NONE(symbol, parameters)
#define GPUMAN_NULL_PTDS(symbol, parameters) GPUMAN_NULL_DEFINE(symbol##_ptds, parameters)
#define GPUMAN_NULL_PTSZ(symbol, parameters) GPUMAN_NULL_DEFINE(symbol##_ptsz, parameters)
#define GPUMAN_NULL_ROW(name, symbol, version, twin, parameters, arguments) \
  GPUMAN_NULL_DEFINE(symbol, parameters)                                    \
  GPUMAN_NULL_##twin(symbol, parameters)
GPUMAN_CUDA_FUNCTIONS(GPUMAN_NULL_ROW)

}  // extern "C"
}  // namespace gpuman::driver::abi
