// Libraries: images without a context, and their kernels.
#include "sim/cuda/library.h"

#include <cstring>

#include "sim/cuda/api.h"
#include "sim/cuda/function_attributes.h"
#include "sim/cuda/ptx_text.h"

namespace gpuman::sim::cuda {
namespace {

CUresult Load(const char* function, CUlibrary* out, std::string image) {
  const Call call(function, Need::kHealthy);
  if (!call) return call.error();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto parsed = ptx::ParseText(image);
  if (!parsed)
    return image.starts_with(
               "\x7f"
               "ELF")
               ? CUDA_ERROR_INVALID_IMAGE
               : CUDA_ERROR_INVALID_PTX;
  auto library = std::make_shared<Library>();
  for (const ptx::Entry& entry : parsed->entries) {
    library->kernels.push_back(std::make_unique<LibraryKernel>(LibraryKernel{library.get(), entry.name}));
  }
  library->image = std::move(image);
  *out = call.driver().libraries.Add(std::move(library));
  return CUDA_SUCCESS;
}

// The library's module in the current context.
CUresult ModuleOf(const Call& call, Library& library, std::shared_ptr<Module>& module) {
  const std::lock_guard lock(library.mutex);
  std::shared_ptr<Module>& known = library.modules[&call.context()];
  if (known == nullptr || known->context->destroyed()) {
    std::string log;
    known = nullptr;
    const CUresult loaded =
        LoadModule(call.driver(), call.shared_context(), library.image.c_str(), known, log);
    if (loaded != CUDA_SUCCESS) return loaded;
  }
  module = known;
  return CUDA_SUCCESS;
}

// Dereferences a kernel's handle only if a library has it.
std::shared_ptr<Library> LibraryOf(Driver& driver, CUkernel handle, const LibraryKernel*& kernel) {
  for (auto& library : driver.libraries.All()) {
    for (const auto& candidate : library->kernels) {
      if (reinterpret_cast<CUkernel>(candidate.get()) != handle) continue;
      kernel = candidate.get();
      return library;
    }
  }
  return nullptr;
}

struct KernelCall {
  KernelCall(const char* function, CUkernel handle, Need need) : call(function, need) {
    if (call) library = LibraryOf(call.driver(), handle, kernel);
    error = !call ? call.error() : library == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  }
  // The kernel in the current context.
  CUresult Resolve(std::shared_ptr<Function>& function) const {
    std::shared_ptr<Module> module;
    const CUresult loaded = ModuleOf(call, *library, module);
    if (loaded != CUDA_SUCCESS) return loaded;
    for (const auto& candidate : module->functions) {
      if (candidate->kernel->name == kernel->name) function = candidate;
    }
    return function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  }
  Call call;
  const LibraryKernel* kernel = nullptr;
  std::shared_ptr<Library> library;
  CUresult error;
};

struct LibraryCall {
  LibraryCall(const char* function, CUlibrary handle, Need need) : call(function, need) {
    if (call) library = call.driver().libraries.Find(handle);
    error = !call ? call.error() : library == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  }
  Call call;
  std::shared_ptr<Library> library;
  CUresult error;
};

}  // namespace

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned int,
                           CUlibraryOption*, void**, unsigned int) {
  if (code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Load(__func__, library, static_cast<const char*>(code));
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* file_name, CUjit_option*, void**, unsigned int,
                               CUlibraryOption*, void**, unsigned int) {
  std::string image;
  const CUresult read = ReadImageFile(file_name, image);
  return read == CUDA_SUCCESS ? Load(__func__, library, std::move(image)) : read;
}

CUresult cuLibraryUnload(CUlibrary library) {
  const LibraryCall call(__func__, library, Need::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  call.call.driver().libraries.Take(library);
  const std::lock_guard lock(call.library->mutex);
  for (const auto& [context, module] : call.library->modules) {
    if (module == nullptr || module->context->destroyed()) continue;
    module->context->Synchronize();
    UnloadModule(call.call.driver(), module);
  }
  call.library->modules.clear();
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  const LibraryCall call(__func__, library, Need::kHealthy);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& candidate : call.library->kernels) {
    if (candidate->name != name) continue;
    *kernel = reinterpret_cast<CUkernel>(candidate.get());
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  const LibraryCall call(__func__, library, Need::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> loaded;
  const CUresult result = ModuleOf(call.call, *call.library, loaded);
  if (result == CUDA_SUCCESS) *module = HandleOf<CUmodule>(loaded);
  return result;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* pointer, size_t* bytes, CUlibrary library, const char* name) {
  CUmodule module = nullptr;
  const CUresult loaded = cuLibraryGetModule(&module, library);
  return loaded == CUDA_SUCCESS ? cuModuleGetGlobal_v2(pointer, bytes, module, name) : loaded;
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary library) {
  const LibraryCall call(__func__, library, Need::kHealthy);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(call.library->kernels.size());
  return CUDA_SUCCESS;
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int num_kernels, CUlibrary library) {
  const LibraryCall call(__func__, library, Need::kHealthy);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < call.library->kernels.size() && i < num_kernels; ++i) {
    kernels[i] = reinterpret_cast<CUkernel>(call.library->kernels[i].get());
  }
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  const KernelCall call(__func__, kernel, Need::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> resolved;
  const CUresult result = call.Resolve(resolved);
  if (result == CUDA_SUCCESS) *function = HandleOf<CUfunction>(resolved);
  return result;
}
CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  const KernelCall call(__func__, kernel, Need::kHealthy);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = HandleOf<CUlibrary>(call.library);
  return CUDA_SUCCESS;
}
CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  const KernelCall call(__func__, kernel, Need::kHealthy);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = call.kernel->name.c_str();
  return CUDA_SUCCESS;
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attrib, CUkernel kernel, CUdevice device) {
  const KernelCall call(__func__, kernel, Need::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (call.call.driver().FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::shared_ptr<Function> resolved;
  const CUresult result = call.Resolve(resolved);
  return result == CUDA_SUCCESS ? GetFunctionAttribute(*resolved, attrib, *value) : result;
}
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice device) {
  const KernelCall call(__func__, kernel, Need::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (call.call.driver().FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::shared_ptr<Function> resolved;
  const CUresult result = call.Resolve(resolved);
  return result == CUDA_SUCCESS ? SetFunctionAttribute(*resolved, attrib, val) : result;
}
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice) {
  const KernelCall call(__func__, kernel, Need::kHealthy);
  if (call.error != CUDA_SUCCESS) return call.error;
  return config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t param_index, size_t* param_offset, size_t* param_size) {
  const KernelCall call(__func__, kernel, Need::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  std::shared_ptr<Function> resolved;
  const CUresult result = call.Resolve(resolved);
  if (result != CUDA_SUCCESS) return result;
  return cuFuncGetParamInfo(HandleOf<CUfunction>(resolved), param_index, param_offset, param_size);
}

}  // namespace gpuman::sim::cuda
