#include "sim/cuda/module.h"

#include <cstdio>
#include <cstring>

#include "sim/cuda/driver.h"
#include "sim/cuda/memory.h"

namespace gpuman::sim::cuda {
namespace {

constexpr std::size_t kLargestImage = 64u << 20;
constexpr std::uint32_t kElf = 0x464c457f, kFatBinary = 0xba55ed50, kFatBinaryWrapper = 0x466243b1;

// The newest PTX that the driver compiles: CUDA 13.0 brought 9.0, each minor version one more; 12.x had 8.x.
unsigned NewestPtx(int cuda_version) {
  const int major = cuda_version / 1000, minor = cuda_version % 1000 / 10;
  return static_cast<unsigned>((major - 4) * 10 + minor);
}

// Machine code cannot run here.
bool IsBinary(const void* image) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  return magic == kElf || magic == kFatBinary || magic == kFatBinaryWrapper;
}

CUresult PlaceGlobals(Driver& driver, Module& module) {
  for (const ptx::GlobalVariable& variable : module.program.globals) {
    CUdeviceptr address = 0;
    const CUresult placed = AllocateDevice(driver, *module.context, variable.size, address);
    if (placed != CUDA_SUCCESS) return placed;
    module.globals.push_back(address);
    void* const bytes = reinterpret_cast<void*>(address);
    std::memset(bytes, 0, variable.size);
    std::memcpy(bytes, variable.initial.data(), variable.initial.size());
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult LoadModule(Driver& driver, const std::shared_ptr<Context>& context, const void* image,
                    std::shared_ptr<Module>& module, std::string& log) {
  const auto* const text = static_cast<const char*>(image);
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device& device = context->device();
  if (device.state().shared().faults.modules_fail[device.gpu()].load() != 0) {
    log = "libnvidia-ptxjitcompiler.so.1 was not found";
    return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  }
  const std::size_t size = strnlen(text, kLargestImage);
  if (size >= 4 && IsBinary(image)) {
    log = "machine code cannot run on the simulated driver; PTX text can";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  auto parsed = ptx::ParseText({text, size});
  if (!parsed) {
    log = parsed.error();
    return log.find("version") != std::string::npos ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_INVALID_PTX;
  }
  if (parsed->version > NewestPtx(driver.cuda_version())) {
    log = "this driver does not know PTX of that version";
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  const GpuStatic& info = context->device().info();
  if (parsed->target > info.compute_major * 10 + info.compute_minor) {
    log = "the target is newer than the device";
    return CUDA_ERROR_INVALID_PTX;
  }
  auto program = ptx::Decode(std::move(*parsed));
  if (!program) {
    log = program.error();
    return CUDA_ERROR_INVALID_PTX;
  }
  module = std::make_shared<Module>();
  module->context = context;
  module->program = std::move(*program);
  const CUresult placed = PlaceGlobals(driver, *module);
  driver.modules.Add(module);
  if (placed != CUDA_SUCCESS) {
    UnloadModule(driver, module);
    return placed;
  }
  for (ptx::Kernel& kernel : module->program.kernels) {
    auto function = std::make_shared<Function>();
    function->module = module.get();
    function->kernel = std::make_shared<const ptx::Kernel>(std::move(kernel));
    driver.functions.Add(function);
    module->functions.push_back(std::move(function));
  }
  module->program.kernels.clear();
  return CUDA_SUCCESS;
}

CUresult ReadImageFile(const char* path, std::string& image) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
  char buffer[65536];
  std::size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof buffer, file)) > 0 && image.size() < kLargestImage) {
    image.append(buffer, got);
  }
  std::fclose(file);
  return CUDA_SUCCESS;
}

void UnloadModule(Driver& driver, const std::shared_ptr<Module>& module) {
  driver.modules.Take(HandleOf<CUmodule>(module));
  for (const auto& function : module->functions) driver.functions.Take(HandleOf<CUfunction>(function));
  for (const std::uint64_t address : module->globals) FreeDevice(driver, address);
  module->globals.clear();
}

}  // namespace gpuman::sim::cuda
