// A library that is loaded with RTLD_DEEPBIND: its dlsym is libc's, whatever library is preloaded.
#include <dlfcn.h>

#include "driver/abi/cuda.h"

using namespace gpuman::driver::abi;  // NOLINT(google-build-using-namespace)

// Allocates the bytes in a context of its own; returns the driver's status.
extern "C" __attribute__((visibility("default"))) int DeepTake(std::size_t bytes) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  auto* const init = reinterpret_cast<fn::cuInit*>(::dlsym(library, "cuInit"));
  auto* const create = reinterpret_cast<fn::cuCtxCreate_v2*>(::dlsym(library, "cuCtxCreate_v2"));
  auto* const allocate = reinterpret_cast<fn::cuMemAlloc_v2*>(::dlsym(library, "cuMemAlloc_v2"));
  CUcontext context = nullptr;
  CUdeviceptr pointer = 0;
  if (init(0) != CUDA_SUCCESS || create(&context, 0, 0) != CUDA_SUCCESS) return -1;
  return static_cast<int>(allocate(&pointer, bytes));
}
