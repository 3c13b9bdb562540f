#pragma once

// The CUDA driver API (libcuda.so.1): our own declarations of its ABI, so that a build needs nothing of the
// vendor's toolkit. Names, values and layouts are the vendor's.
//
// For each exported symbol S of GPUMAN_CUDA_FUNCTIONS there is
//   - the function type `fn::S`, for pointers got by dlsym or cuGetProcAddress:  fn::cuMemAlloc_v2* alloc;
//   - one row of kCudaFunctions, for tables keyed on name and version.

#include <array>
#include <string_view>

#include "driver/abi/cuda_functions.h"
#include "driver/abi/cuda_types.h"

namespace gpuman::driver::abi {

namespace fn {
#define GPUMAN_CUDA_TYPE(name, symbol, version, twin, parameters, arguments) \
  using symbol = CUresult parameters;
GPUMAN_CUDA_FUNCTIONS(GPUMAN_CUDA_TYPE)
#undef GPUMAN_CUDA_TYPE
}  // namespace fn

// Whether the function has a twin that uses the per-thread default stream, and the suffix of the twin.
enum class PerThreadStreamSuffix { kNone, kPtds, kPtsz };

struct CudaFunction {
  std::string_view name;
  std::string_view symbol;
  int version;
  PerThreadStreamSuffix twin;
};

inline constexpr auto kCudaFunctions = [] {
  constexpr PerThreadStreamSuffix NONE = PerThreadStreamSuffix::kNone;
  constexpr PerThreadStreamSuffix PTDS = PerThreadStreamSuffix::kPtds;
  constexpr PerThreadStreamSuffix PTSZ = PerThreadStreamSuffix::kPtsz;
#define GPUMAN_CUDA_ROW(name, symbol, version, twin, parameters, arguments) \
  CudaFunction{#name, #symbol, version, twin},
  return std::to_array<CudaFunction>({GPUMAN_CUDA_FUNCTIONS(GPUMAN_CUDA_ROW)});
#undef GPUMAN_CUDA_ROW
}();

// CUDA 7.0 introduced the per-thread default stream; cuGetProcAddress gives no twin for an older version.
inline constexpr int kFirstTwinVersion = 7000;
// For every function of the list, no CUDA version up to this one has a newer version that is missing in the
// list. A later driver may have one.
inline constexpr int kNewestKnownVersion = 13050;

}  // namespace gpuman::driver::abi
