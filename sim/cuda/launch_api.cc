// Launches of kernels and of functions of the program.
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <shared_mutex>

#include "sim/cuda/api.h"
#include "sim/cuda/managed.h"
#include "sim/cuda/module.h"
#include "sim/cuda/polling.h"
#include "sim/cuda/ptx_run.h"

namespace gpuman::sim::cuda {
namespace {

// The memory that a kernel on one device may touch. The thread holds `execution` while the kernel runs,
// except while the kernel waits for memory that somebody else writes: mappings of the process may change
// then.
class KernelMemory : public ptx::Memory {
 public:
  KernelMemory(Driver& driver, const Context& context, std::shared_lock<RwLock>& execution)
      : driver_(driver), context_(context), execution_(execution) {}

  bool Pause(std::uint64_t nanoseconds, unsigned polls) override {
    execution_.unlock();
    PauseBeforeNextPoll(nanoseconds, polls);
    execution_.lock();
    return driver_.fault() == CUDA_SUCCESS;
  }

  bool Find(std::uint64_t address, ptx::Range& range) override {
    const auto block = driver_.memory.FindBlock(address);
    if (!block) return false;
    range = {block->begin, block->end, true};
    const std::uint32_t own = 1u << context_.device().ordinal();
    switch (block->kind) {
      case MemoryKind::kVirtual:
        range.writable = (block->writers & own) != 0;
        return (block->readers & own) != 0;
      case MemoryKind::kDevice:
      case MemoryKind::kPool:
        return block->device == &context_.device() ||
               (context_.peers.load() & (1u << block->device->ordinal())) != 0;
      case MemoryKind::kImported:
        return block->device == &context_.device() || (block->readers & own) != 0 ||
               (context_.peers.load() & (1u << block->device->ordinal())) != 0;
      case MemoryKind::kManaged: {  // each page that the kernel touches moves to the device
        const std::uint64_t page = (address - block->begin) / ManagedPages::kPage * ManagedPages::kPage;
        block->pages->MoveTo(&context_.device(), page, ManagedPages::kPage);
        range = {block->begin + page, block->begin + page + ManagedPages::kPage, true};
        break;
      }
      case MemoryKind::kHost:
      case MemoryKind::kRegistered:
        break;
    }
    return true;
  }

 private:
  Driver& driver_;
  const Context& context_;
  std::shared_lock<RwLock>& execution_;
};

struct Launch {
  std::shared_ptr<const ptx::Kernel> kernel;
  std::vector<std::uint64_t> globals;
  std::vector<std::uint8_t> parameters;
  ptx::Dimensions grid, block;
};

CUresult ErrorOf(ptx::Fault fault) {
  switch (fault) {
    case ptx::Fault::kIllegalAddress:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ptx::Fault::kMisalignedAddress:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case ptx::Fault::kTrap:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case ptx::Fault::kNone:
      break;
  }
  return CUDA_SUCCESS;
}

void SleepUntil(std::uint64_t monotonic_ns) {
  timespec deadline{};
  deadline.tv_sec = static_cast<time_t>(monotonic_ns / 1'000'000'000);
  deadline.tv_nsec = static_cast<long>(monotonic_ns % 1'000'000'000);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

void RunLaunch(Driver& driver, const Context& context, const Launch& launch) {
  if (driver.fault() != CUDA_SUCCESS) return;
  Device& device = context.device();
  const unsigned gpu = device.gpu();
  const std::uint64_t began = MonotonicNs();
  device.client().KernelBegan(gpu);
  ptx::RunResult result;
  {
    std::shared_lock execution(driver.execution);
    KernelMemory memory(driver, context, execution);
    result = ptx::Run(*launch.kernel, launch.globals, launch.grid, launch.block, launch.parameters, memory);
  }
  if (result.waited_ns > 0) SleepUntil(began + result.waited_ns);
  device.client().KernelEnded(gpu);
  if (result.fault != ptx::Fault::kNone) driver.SetFault(ErrorOf(result.fault));
}

// Parameters come as one pointer each, or as a buffer between markers.
CUresult TakeParameters(const ptx::Kernel& kernel, void** parameters, void** extra,
                        std::vector<std::uint8_t>& bytes) {
  bytes.resize(kernel.parameter_bytes);
  if (parameters != nullptr) {
    if (extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
      if (parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      std::memcpy(bytes.data() + kernel.parameters[i].offset, parameters[i], kernel.parameters[i].size);
    }
    return CUDA_SUCCESS;
  }
  if (kernel.parameters.empty()) return CUDA_SUCCESS;
  const void* buffer = nullptr;
  std::size_t size = 0;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1] != nullptr)
      std::memcpy(&size, extra[1], sizeof size);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (buffer == nullptr || size < bytes.size()) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(bytes.data(), buffer, bytes.size());
  return CUDA_SUCCESS;
}

bool ShapeIsGood(const ptx::Kernel& kernel, const ptx::Dimensions& grid, const ptx::Dimensions& block) {
  return grid.x > 0 && grid.x <= 0x7fffffff && grid.y > 0 && grid.y <= 65535 && grid.z > 0 &&
         grid.z <= 65535 && block.x > 0 && block.x <= 1024 && block.y > 0 && block.y <= 1024 && block.z > 0 &&
         block.z <= 64 && block.Count() <= kernel.max_threads;
}

// `function` may also be a kernel of a library, which CUDA accepts as a function.
CUresult LaunchOn(const char* name, CUfunction handle, ptx::Dimensions grid, ptx::Dimensions block,
                  unsigned shared, CUstream stream, void** parameters, void** extra) {
  const Call call(name);
  if (!call) return call.error();
  auto function = call.driver().functions.Find(handle);
  if (function == nullptr) {
    CUfunction of_kernel = nullptr;
    if (cuKernelGetFunction(&of_kernel, reinterpret_cast<CUkernel>(handle)) != CUDA_SUCCESS) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    function = call.driver().functions.Find(of_kernel);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  const StreamReference on = ResolveStream(call, stream);
  if (!on) return CUDA_ERROR_INVALID_HANDLE;
  if (function->module->context != on.context) return CUDA_ERROR_INVALID_CONTEXT;
  Launch launch{function->kernel, function->module->globals, {}, grid, block};
  if (!ShapeIsGood(*function->kernel, grid, block) ||
      shared > static_cast<unsigned>(function->dynamic_shared_limit.load())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult taken = TakeParameters(*function->kernel, parameters, extra, launch.parameters);
  if (taken != CUDA_SUCCESS) return taken;
  Driver& driver = call.driver();
  return on.context->Enqueue(
      on.stream, CU_GRAPH_NODE_TYPE_KERNEL,
      [&driver, context = on.context, launch = std::move(launch)] { RunLaunch(driver, *context, launch); });
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_dim_x, unsigned int grid_dim_y,
                        unsigned int grid_dim_z, unsigned int block_dim_x, unsigned int block_dim_y,
                        unsigned int block_dim_z, unsigned int shared_mem_bytes, CUstream stream,
                        void** kernel_params, void** extra) {
  return LaunchOn(__func__, function, {grid_dim_x, grid_dim_y, grid_dim_z},
                  {block_dim_x, block_dim_y, block_dim_z}, shared_mem_bytes, stream, kernel_params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** kernel_params,
                          void** extra) {
  if (config == nullptr || (config->numAttrs > 0 && config->attrs == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  return LaunchOn(__func__, function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                  {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes,
                  config->hStream, kernel_params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_dim_x, unsigned int grid_dim_y,
                                   unsigned int grid_dim_z, unsigned int block_dim_x,
                                   unsigned int block_dim_y, unsigned int block_dim_z,
                                   unsigned int shared_mem_bytes, CUstream stream, void** kernel_params) {
  return LaunchOn(__func__, function, {grid_dim_x, grid_dim_y, grid_dim_z},
                  {block_dim_x, block_dim_y, block_dim_z}, shared_mem_bytes, stream, kernel_params, nullptr);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn callback, void* user_data) {
  const Call call(__func__);
  if (!call) return call.error();
  if (callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const StreamReference on = ResolveStream(call, stream);
  if (!on) return CUDA_ERROR_INVALID_HANDLE;
  Driver& driver = call.driver();
  return on.context->Enqueue(on.stream, CU_GRAPH_NODE_TYPE_HOST, [&driver, callback, user_data] {
    if (driver.fault() == CUDA_SUCCESS) callback(user_data);
  });
}

// `sync_mode`, how a program waits, has no effect here.
CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn callback, void* user_data, unsigned int sync_mode) {
  constexpr unsigned kModes = 2;
  return sync_mode < kModes ? cuLaunchHostFunc(stream, callback, user_data) : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace gpuman::sim::cuda
