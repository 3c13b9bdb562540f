#include "sim/cuda/memory.h"

#include "sim/cuda/managed.h"
#include "sim/cuda/pool.h"

namespace gpuman::sim::cuda {
namespace {

constexpr std::uint64_t kLargestRequest = std::uint64_t{1} << 45;

CUresult AllocateSmall(Driver& driver, Context& context, std::uint64_t size, CUdeviceptr& address) {
  const std::uint64_t step = RoundUp(size, kSmallStep);
  const std::lock_guard lock(context.small.mutex);
  address = 0;
  for (auto& [begin, free] : context.small.blocks) {
    if (const auto offset = free.Take(step)) {
      address = begin + *offset;
      break;
    }
  }
  if (address == 0) {
    auto physical =
        Physical::Allocate(driver.heap, &context.device(), kDeviceStep, Physical::Sharing::kPrivate);
    if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const std::uint64_t begin = ReserveAddresses(kDeviceStep, kDeviceStep);
    if (begin == 0 || !MapAt(begin, kDeviceStep, *physical, 0)) return CUDA_ERROR_OUT_OF_MEMORY;
    driver.memory.AddBlock({.begin = begin,
                            .end = begin + kDeviceStep,
                            .kind = MemoryKind::kDevice,
                            .device = &context.device(),
                            .physical = std::move(physical)});
    GpuMemoryFreeList& free = context.small.blocks[begin];
    free.Give(0, kDeviceStep);
    address = begin + *free.Take(step);
  }
  driver.memory.AddAllocation({.begin = address,
                               .size = size,
                               .kind = MemoryKind::kDevice,
                               .device = &context.device(),
                               .context = &context});
  return CUDA_SUCCESS;
}

void FreeSmall(Driver& driver, Context& context, const Allocation& allocation) {
  const std::uint64_t begin = allocation.begin / kDeviceStep * kDeviceStep;
  const std::lock_guard lock(context.small.mutex);
  const auto at = context.small.blocks.find(begin);
  if (at == context.small.blocks.end()) return;
  at->second.Give(allocation.begin - begin, RoundUp(allocation.size, kSmallStep));
  if (!at->second.IsFree(0, kDeviceStep)) return;
  context.small.blocks.erase(at);
  DropBlock(driver, begin);
}

}  // namespace

bool MapNew(Driver& driver, Context& context, MemoryKind kind, std::uint64_t size,
            std::shared_ptr<Physical> physical, unsigned flags, std::uint64_t& address,
            std::uint32_t reachable) {
  const std::uint64_t mapped = physical->size();
  address = ReserveAddresses(mapped, kDeviceStep);
  if (address == 0) return false;
  if (!MapAt(address, mapped, *physical, 0)) {
    FreeAddresses(address, mapped);
    return false;
  }
  Device* const device = physical->device();
  driver.memory.AddBlock(
      {.begin = address,
       .end = address + mapped,
       .kind = kind,
       .device = device,
       .physical = std::move(physical),
       .readers = reachable,
       .writers = reachable,
       .pages = kind == MemoryKind::kManaged ? std::make_shared<ManagedPages>(mapped) : nullptr});
  driver.memory.AddAllocation({.begin = address,
                               .size = size,
                               .kind = kind,
                               .device = &context.device(),
                               .context = &context,
                               .flags = flags});
  return true;
}

void DropBlock(Driver& driver, std::uint64_t begin) {
  std::optional<Block> block;  // its memory is freed after the lock is released
  const std::unique_lock lock(driver.execution);
  block = driver.memory.TakeBlock(begin);
  if (block) FreeAddresses(block->begin, block->end - block->begin);
}

CUresult AllocateDevice(Driver& driver, Context& context, std::uint64_t size, CUdeviceptr& address) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > kLargestRequest) return CUDA_ERROR_OUT_OF_MEMORY;
  if (size <= kLargestSmall) return AllocateSmall(driver, context, size, address);
  auto physical = Physical::Allocate(driver.heap, &context.device(), RoundUp(size, kDeviceStep),
                                     Physical::Sharing::kPrivate);
  if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  std::uint64_t at = 0;
  if (!MapNew(driver, context, MemoryKind::kDevice, size, std::move(physical), 0, at))
    return CUDA_ERROR_OUT_OF_MEMORY;
  address = at;
  return CUDA_SUCCESS;
}

CUresult AllocateManaged(Driver& driver, Context& context, std::uint64_t size, unsigned flags,
                         CUdeviceptr& address) {
  if (size == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  if (size > kLargestRequest) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!context.device().Reserve(0)) return CUDA_ERROR_OUT_OF_MEMORY;  // an injected fault
  auto physical =
      Physical::Allocate(driver.heap, nullptr, RoundUp(size, kDeviceStep), Physical::Sharing::kPrivate);
  std::uint64_t at = 0;
  if (!MapNew(driver, context, MemoryKind::kManaged, size, std::move(physical), flags, at)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  address = at;
  return CUDA_SUCCESS;
}

void MoveManaged(Driver& driver, std::uint64_t address, std::uint64_t size, Device* device) {
  const auto block = driver.memory.FindBlock(address);
  if (block && block->pages != nullptr) block->pages->MoveTo(device, address - block->begin, size);
}

CUresult FreeDevice(Driver& driver, CUdeviceptr address) {
  const auto known = driver.memory.FindAllocation(address);
  if (!known || known->begin != address) return CUDA_ERROR_INVALID_VALUE;
  if (known->kind != MemoryKind::kDevice && known->kind != MemoryKind::kManaged &&
      known->kind != MemoryKind::kPool) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (known->device->IsLost()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  // Also finds a context that is being destroyed.
  const auto owner = driver.contexts.Find(reinterpret_cast<CUcontext>(known->context));
  if (owner != nullptr) owner->Synchronize();
  const auto taken = driver.memory.TakeAllocation(address);
  if (!taken) return CUDA_ERROR_INVALID_VALUE;  // another thread was faster
  if (taken->kind == MemoryKind::kPool) {
    taken->pool->Give(address, taken->size);
    taken->pool->TrimToThreshold();
  } else if (taken->kind == MemoryKind::kDevice && taken->size <= kLargestSmall) {
    if (owner != nullptr) FreeSmall(driver, *owner, *taken);
  } else {
    DropBlock(driver, address);
  }
  return CUDA_SUCCESS;
}

void FreeAllOf(Driver& driver, Context& context) {
  std::vector<Allocation> gone;
  driver.memory.Filter([&](const Allocation& allocation) {
    if (allocation.context != &context || allocation.kind == MemoryKind::kVirtual ||
        IsHostKind(allocation.kind)) {
      return true;
    }
    gone.push_back(allocation);
    return false;
  });
  for (const Allocation& allocation : gone) {
    if (allocation.kind == MemoryKind::kPool) {
      allocation.pool->Give(allocation.begin, allocation.size);
      allocation.pool->TrimToThreshold();
    } else if (allocation.kind == MemoryKind::kDevice && allocation.size <= kLargestSmall) {
      FreeSmall(driver, context, allocation);
    } else {
      DropBlock(driver, allocation.begin);
    }
  }
}

}  // namespace gpuman::sim::cuda
