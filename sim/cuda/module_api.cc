// Modules and functions.
#include <algorithm>
#include <cstdio>

#include "sim/cuda/api.h"
#include "sim/cuda/module.h"

namespace gpuman::sim::cuda {
namespace {

// Writes to the caller's buffer for compiler messages, if there is one.
void WriteLog(const std::string& log, unsigned count, const CUjit_option* options, void** values) {
  if (options == nullptr || values == nullptr) return;
  char* buffer = nullptr;
  std::size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) size = reinterpret_cast<std::size_t>(values[i]);
  }
  if (buffer != nullptr && size > 0) std::snprintf(buffer, size, "%s", log.c_str());
}

CUresult Load(const char* function, CUmodule* out, const void* image, unsigned count,
              const CUjit_option* options, void** values) {
  const Call call(function);
  if (!call) return call.error();
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  std::string log;
  const CUresult loaded = LoadModule(call.driver(), call.shared_context(), image, module, log);
  WriteLog(log, count, options, values);
  if (loaded == CUDA_SUCCESS) *out = HandleOf<CUmodule>(module);
  return loaded;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return Load(__func__, module, image, 0, nullptr, nullptr);
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int num_options,
                            CUjit_option* options, void** option_values) {
  return Load(__func__, module, image, num_options, options, option_values);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fat_cubin) {
  return Load(__func__, module, fat_cubin, 0, nullptr, nullptr);
}
CUresult cuModuleLoad(CUmodule* module, const char* path) {
  std::string image;
  const CUresult read = ReadImageFile(path, image);
  return read == CUDA_SUCCESS ? Load(__func__, module, image.c_str(), 0, nullptr, nullptr) : read;
}

CUresult cuModuleUnload(CUmodule module) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto found = call.driver().modules.Find(module);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  found->context->Synchronize();
  UnloadModule(call.driver(), found);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto found = call.driver().modules.Find(module);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& candidate : found->functions) {
    if (candidate->kernel->name != name) continue;
    *function = HandleOf<CUfunction>(candidate);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* pointer, size_t* bytes, CUmodule module, const char* name) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto found = call.driver().modules.Find(module);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < found->program.globals.size(); ++i) {
    if (found->program.globals[i].name != name) continue;
    if (pointer != nullptr) *pointer = found->globals[i];
    if (bytes != nullptr) *bytes = found->program.globals[i].size;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule module) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto found = call.driver().modules.Find(module);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(found->functions.size());
  return CUDA_SUCCESS;
}
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int num_functions, CUmodule module) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto found = call.driver().modules.Find(module);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (functions == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < found->functions.size() && i < num_functions; ++i) {
    functions[i] = HandleOf<CUfunction>(found->functions[i]);
  }
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda
