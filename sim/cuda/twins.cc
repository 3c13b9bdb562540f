// The functions with the per-thread default stream: the same functions, with another meaning of the null
// stream.
#include "sim/cuda/twins.h"
#include "sim/cuda/api.h"

namespace gpuman::sim::cuda {

#define GPUMAN_SIM_DEFINE_TWIN(symbol, suffix, parameters, arguments) \
  CUresult symbol##suffix parameters {                                \
    const PerThreadDefault per_thread;                                \
    return symbol arguments;                                          \
  }
#define GPUMAN_SIM_TWIN_NONE(symbol, parameters, arguments)
#define GPUMAN_SIM_TWIN_PTDS(symbol, parameters, arguments) \
  GPUMAN_SIM_DEFINE_TWIN(symbol, _ptds, parameters, arguments)
#define GPUMAN_SIM_TWIN_PTSZ(symbol, parameters, arguments) \
  GPUMAN_SIM_DEFINE_TWIN(symbol, _ptsz, parameters, arguments)
#define GPUMAN_SIM_TWIN(name, symbol, version, twin, parameters, arguments) \
  GPUMAN_SIM_TWIN_##twin(symbol, parameters, arguments)
GPUMAN_CUDA_FUNCTIONS(GPUMAN_SIM_TWIN)

}  // namespace gpuman::sim::cuda
