#include "sim/cuda/driver.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "driver/abi/nvml.h"
#include "sim/cuda/array.h"
#include "sim/cuda/checkpoint.h"
#include "sim/cuda/event.h"
#include "sim/cuda/library.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/module.h"
#include "sim/cuda/mps_client.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/virtual_memory.h"

namespace gpuman::sim::cuda {
namespace {

std::atomic<Driver*> current{nullptr};

constexpr int kNewestCudaVersion = 13000;

}  // namespace

Driver& Driver::Get() {
  Driver* driver = current.load();
  if (driver != nullptr) return *driver;
  auto* const fresh = new Driver;
  if (current.compare_exchange_strong(driver, fresh)) {
    pthread_atfork(nullptr, nullptr, AfterForkInChild);
    return *fresh;
  }
  delete fresh;
  return *driver;
}

void Driver::AfterForkInChild() {
  const Driver* const parent = current.load();
  if (parent == nullptr || (!parent->initialized() && !parent->lost_in_fork_)) return;
  auto* const fresh = new Driver;
  fresh->lost_in_fork_ = true;
  current.store(fresh);
}

CUresult Driver::Init() {
  const std::lock_guard lock(init_mutex_);
  if (initialized_) return CUDA_SUCCESS;
  if (lost_in_fork_) return CUDA_ERROR_NOT_INITIALIZED;
  if (!state_) {
    auto opened = State::OpenFromEnvironment();
    if (!opened) return CUDA_ERROR_NO_DEVICE;
    state_.emplace(std::move(*opened));
  }
  if (!client_) client_ = std::make_unique<Client>(*state_);
  const std::vector<Visible> visible = VisibleDevices(state_->shared(), std::getenv("CUDA_VISIBLE_DEVICES"));
  if (visible.empty()) return CUDA_ERROR_NO_DEVICE;
  if (client_->Slot() == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto mps = JoinMps(*this);
  if (mps.refusal != CUDA_SUCCESS) return mps.refusal;
  is_mps_client_ = mps.is_client;
  const char* const mps_variable = std::getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  const bool mps_limits =
      mps.is_client &&
      !(mps.protocol == 3 && NamesUnseenDevice(mps_variable, static_cast<int>(visible.size())));
  current_pools_ = std::vector<std::atomic<MemoryPool*>>(visible.size());
  for (const Visible& gpu : visible) {
    const auto ordinal = static_cast<int>(devices_.size());
    devices_.push_back(std::make_unique<Device>(*state_, *client_, ordinal, gpu));
    if (mps_limits) {
      devices_.back()->Limit(mps.memory_limit);
      devices_.back()->Limit(MpsLimitOf(mps_variable, ordinal));
    }
    primaries_.push_back(std::make_unique<Primary>());
    default_pools_.push_back(std::make_shared<MemoryPool>(*this, *devices_.back(), true));
    pools.Add(default_pools_.back());
    current_pools_[devices_.size() - 1].store(default_pools_.back().get());
  }
  StartCheckpointService(*this);
  initialized_ = true;
  return CUDA_SUCCESS;
}

void Driver::SetFault(CUresult fault) {
  unsigned expected = CUDA_SUCCESS;
  fault_.compare_exchange_strong(expected, fault);
}

int Driver::cuda_version() {
  const std::lock_guard lock(init_mutex_);
  if (!state_) {
    auto opened = State::OpenFromEnvironment();
    if (!opened) return kNewestCudaVersion;
    state_.emplace(std::move(*opened));
  }
  return static_cast<int>((*state_)->cuda_version);
}

Device* Driver::FindDevice(CUdevice ordinal) const {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= devices_.size()) return nullptr;
  return devices_[static_cast<std::size_t>(ordinal)].get();
}

MemoryPool& Driver::default_pool(const Device& device) {
  return *default_pools_[static_cast<std::size_t>(device.ordinal())];
}
MemoryPool* Driver::current_pool(const Device& device) {
  return current_pools_[static_cast<std::size_t>(device.ordinal())].load();
}
void Driver::set_current_pool(const Device& device, MemoryPool* pool) {
  current_pools_[static_cast<std::size_t>(device.ordinal())].store(pool);
}

void Driver::KeepForever(std::shared_ptr<MemoryPool> pool) {
  const std::lock_guard lock(init_mutex_);
  kept_pools_.push_back(std::move(pool));
}

// A GPU in exclusive mode has contexts of one process, or of the clients of its MPS server.
bool Driver::MayMakeContext(const Device& device) {
  const auto mode = device.dynamic().compute_mode.load();
  if (mode == gpuman::driver::abi::NVML_COMPUTEMODE_PROHIBITED) return false;
  if (mode != gpuman::driver::abi::NVML_COMPUTEMODE_EXCLUSIVE_PROCESS || is_mps_client_) return true;
  const ProcessSlot* const own = client_->Slot();
  for (const ProcessSlot* const slot : client_->LiveSlots())
    if (slot != own && slot->gpu[device.gpu()].contexts.load() > 0) return false;
  return true;
}

CUresult Driver::CreateContext(Device& device, unsigned flags, bool is_primary,
                               std::shared_ptr<Context>& context) {
  if (device.IsLost() || !MayMakeContext(device)) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  const std::uint64_t overhead = device.info().context_overhead;
  if (!device.Reserve(overhead)) return CUDA_ERROR_OUT_OF_MEMORY;
  context = std::make_shared<Context>(device, flags, is_primary, NextId());
  context->overhead = overhead;
  context->limits[CU_LIMIT_STACK_SIZE] = 1024;
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752;
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608;
  context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
  device.ContextCreated();
  contexts.Add(context);
  return CUDA_SUCCESS;
}

void Driver::DestroyContext(const std::shared_ptr<Context>& context) {
  if (!context->MarkDestroyed()) return;
  context->Synchronize();
  context->CloseStreams();
  for (const auto& module : modules.TakeIf([&](Module& m) { return m.context == context; }))
    UnloadModule(*this, module);
  streams.TakeIf([&](StreamHandle& s) { return s.context == context; });
  events.TakeIf([&](Event& e) { return e.context == context; });
  arrays.TakeIf([&](Array& a) { return a.context == context; });
  mipmapped_arrays.TakeIf([&](MipmappedArray& a) { return a.context == context; });
  FreeAllOf(*this, *context);
  Device& device = context->device();
  device.Return(context->overhead.exchange(0));
  device.ContextDestroyed();
}

std::vector<std::shared_ptr<Context>> Driver::LiveContexts() const {
  std::vector<std::shared_ptr<Context>> live = contexts.All();
  std::erase_if(live, [](const auto& context) { return context->destroyed(); });
  return live;
}

void Driver::SynchronizeAll() {
  for (const auto& context : LiveContexts()) context->Synchronize();
}

void Driver::AddCapture(const std::shared_ptr<Capture>& capture) {
  const std::lock_guard lock(captures_mutex_);
  captures_.push_back(capture);
  capture_count_.store(static_cast<unsigned>(captures_.size()));
}

void Driver::RemoveCapture(const std::shared_ptr<Capture>& capture) {
  const std::lock_guard lock(captures_mutex_);
  std::erase(captures_, capture);
  capture_count_.store(static_cast<unsigned>(captures_.size()));
}

bool Driver::CaptureForbids(CUstreamCaptureMode thread_mode) {
  if (capture_count_.load() == 0 || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  const std::lock_guard lock(captures_mutex_);
  bool forbids = false;
  for (const auto& capture : captures_) {
    const bool own = capture->thread() == std::this_thread::get_id();
    const bool global = capture->mode() == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (capture->mode() == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    if (!own && (!global || thread_mode != CU_STREAM_CAPTURE_MODE_GLOBAL)) continue;
    capture->Invalidate();
    forbids = true;
  }
  return forbids;
}

bool Driver::UsesManaged() {
  bool found = false;
  memory.Filter([&](const Allocation& allocation) {
    found = found || allocation.kind == MemoryKind::kManaged;
    return true;
  });
  return found;
}

std::vector<std::shared_ptr<Context>>& CurrentContexts() {
  // The first thread's stack is never freed: destructors of the program's static objects may call the driver.
  struct Owner {
    std::vector<std::shared_ptr<Context>>* stack = new std::vector<std::shared_ptr<Context>>;
    ~Owner() {
      if (::gettid() != ::getpid()) delete stack;
    }
  };
  thread_local Owner owner;
  return *owner.stack;
}

}  // namespace gpuman::sim::cuda
