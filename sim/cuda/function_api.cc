// Attributes of functions, and their occupancy.
#include <algorithm>

#include "sim/cuda/api.h"
#include "sim/cuda/function_attributes.h"
#include "sim/cuda/module.h"

namespace gpuman::sim::cuda {
namespace {

struct FunctionCall {
  FunctionCall(const char* name, CUfunction handle) : call(name) {
    function = call ? call.driver().functions.Find(handle) : nullptr;
    error = !call ? call.error() : function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  }
  Call call;
  std::shared_ptr<Function> function;
  CUresult error;
};

}  // namespace

CUresult GetFunctionAttribute(const Function& function, CUfunction_attribute attribute, int& value) {
  const GpuStatic& info = function.module->context->device().info();
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      value = static_cast<int>(function.kernel->max_threads);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      value = static_cast<int>(std::min(function.kernel->registers, 255u));
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      value = static_cast<int>(function.module->program.target);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      value = static_cast<int>(info.compute_major * 10 + info.compute_minor);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      value = function.dynamic_shared_limit;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      value = function.shared_carveout;
      return CUDA_SUCCESS;
    default:
      value = 0;
      return attribute <= CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE ? CUDA_SUCCESS
                                                                                 : CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult SetFunctionAttribute(Function& function, CUfunction_attribute attribute, int value) {
  const GpuStatic& info = function.module->context->device().info();
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value > static_cast<int>(info.shared_memory_per_multiprocessor) - 1024) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      function.dynamic_shared_limit = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      function.shared_carveout = value;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attrib, CUfunction function) {
  const FunctionCall call(__func__, function);
  if (call.error != CUDA_SUCCESS) return call.error;
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE : GetFunctionAttribute(*call.function, attrib, *value);
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attrib, int value) {
  const FunctionCall call(__func__, function);
  return call.error != CUDA_SUCCESS ? call.error : SetFunctionAttribute(*call.function, attrib, value);
}
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  const FunctionCall call(__func__, function);
  if (call.error != CUDA_SUCCESS) return call.error;
  return config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) {
  const FunctionCall call(__func__, function);
  if (call.error != CUDA_SUCCESS) return call.error;
  return config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  const FunctionCall call(__func__, function);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(call.function->module);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetName(const char** name, CUfunction function) {
  const FunctionCall call(__func__, function);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = call.function->kernel->name.c_str();
  return CUDA_SUCCESS;
}
CUresult cuFuncGetParamInfo(CUfunction function, size_t param_index, size_t* param_offset,
                            size_t* param_size) {
  const FunctionCall call(__func__, function);
  if (call.error != CUDA_SUCCESS) return call.error;
  const auto& parameters = call.function->kernel->parameters;
  if (param_offset == nullptr || param_index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *param_offset = parameters[param_index].offset;
  if (param_size != nullptr) *param_size = parameters[param_index].size;
  return CUDA_SUCCESS;
}
CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  const FunctionCall call(__func__, function);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction function) { return FunctionCall(__func__, function).error; }

// Only the number of threads limits the blocks, 32 blocks at most: registers and shared memory are not
// simulated.
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* num_blocks, CUfunction function,
                                                              int block_size, size_t dynamic_smem_size,
                                                              unsigned int flags) {
  const FunctionCall call(__func__, function);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (num_blocks == nullptr || block_size <= 0 || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  const GpuStatic& info = call.call.device().info();
  const int by_threads =
      block_size > 1024 ? 0 : static_cast<int>(info.max_threads_per_multiprocessor) / block_size;
  const std::size_t shared = dynamic_smem_size + 1024;
  const int by_memory =
      static_cast<int>(std::min<std::size_t>(info.shared_memory_per_multiprocessor / shared, 32));
  *num_blocks = std::min(by_threads, by_memory);
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* num_blocks, CUfunction function, int block_size,
                                                     size_t dynamic_smem_size) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(num_blocks, function, block_size,
                                                              dynamic_smem_size, 0);
}
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* min_grid_size, int* block_size, CUfunction function,
                                                   CUoccupancyB2DSize, size_t, int block_size_limit,
                                                   unsigned int flags) {
  const FunctionCall call(__func__, function);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (min_grid_size == nullptr || block_size == nullptr || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  const int most = static_cast<int>(call.function->kernel->max_threads);
  *block_size = block_size_limit > 0 ? std::min(block_size_limit, most) : most;
  const GpuStatic& info = call.call.device().info();
  *min_grid_size = static_cast<int>(call.call.device().multiprocessors()) *
                   std::max(1, static_cast<int>(info.max_threads_per_multiprocessor) / *block_size);
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxPotentialBlockSize(int* min_grid_size, int* block_size, CUfunction function,
                                          CUoccupancyB2DSize size_of, size_t dynamic_smem_size,
                                          int block_size_limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid_size, block_size, function, size_of,
                                                   dynamic_smem_size, block_size_limit, 0);
}
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamic_smem_size, CUfunction function,
                                                 int num_blocks, int block_size) {
  const FunctionCall call(__func__, function);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (dynamic_smem_size == nullptr || num_blocks <= 0 || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  *dynamic_smem_size =
      call.call.device().info().shared_memory_per_multiprocessor / static_cast<unsigned>(num_blocks);
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda
