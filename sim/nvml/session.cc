#include "sim/nvml/session.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "sim/nvml/call.h"

namespace gpuman::sim {
namespace {

std::mutex mutex;
unsigned initialised = 0;         // guarded by mutex
Session* last_session = nullptr;  // guarded by mutex; never freed
std::atomic<Session*> current = nullptr;

}  // namespace

nvmlReturn_t Session::Init() {
  const std::lock_guard lock(mutex);
  if (initialised++ != 0) return NVML_SUCCESS;
  const char* variable = std::getenv(kDirectoryVariable);
  const std::string directory = variable == nullptr ? "" : variable;
  if (last_session == nullptr || last_session->directory_ != directory) {
    auto state = State::OpenFromEnvironment();
    if (!state) {
      initialised = 0;
      return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    last_session = new Session(*std::move(state), directory, last_session);
  }
  ObeySlowCalls(last_session->shared(), "nvmlInit_v2", kAllGpus);
  if (last_session->client_.Slot() == nullptr) {
    initialised = 0;
    return NVML_ERROR_MEMORY;
  }
  current = last_session;
  return NVML_SUCCESS;
}

nvmlReturn_t Session::Shutdown() {
  const std::lock_guard lock(mutex);
  if (initialised == 0) return NVML_ERROR_UNINITIALIZED;
  if (--initialised != 0) return NVML_SUCCESS;
  current = nullptr;
  last_session->client_.Release();
  return NVML_SUCCESS;
}

Session* Session::Current() { return current; }

nvmlDevice_t Session::HandleOf(unsigned index) { return reinterpret_cast<nvmlDevice_t>(&handles_[index]); }

std::optional<unsigned> Session::IndexOf(nvmlDevice_t handle) const {
  const auto* address = reinterpret_cast<const char*>(handle);
  for (unsigned index = 0; index < state_.gpus(); ++index) {
    if (address == &handles_[index]) return index;
  }
  return std::nullopt;
}

nvmlDevice_t Session::HandleOf(const MigDevice& device) {
  return reinterpret_cast<nvmlDevice_t>(&mig_devices_[device.instance.index * kComputes + device.compute.id]);
}
nvmlGpuInstance_t Session::HandleOf(const MigInstance& instance) {
  return reinterpret_cast<nvmlGpuInstance_t>(&instances_[instance.index]);
}
nvmlComputeInstance_t Session::HandleOf(const MigInstance& instance, unsigned compute_id) {
  return reinterpret_cast<nvmlComputeInstance_t>(&computes_[instance.index * kComputes + compute_id]);
}

std::optional<MigDevice> Session::At(std::size_t index) const {
  const auto instance = MigInstanceAt(state_.shared(), static_cast<unsigned>(index / kComputes));
  const auto compute = instance ? instance->Compute(static_cast<unsigned>(index % kComputes)) : std::nullopt;
  return compute ? std::optional(MigDevice{*instance, *compute}) : std::nullopt;
}

namespace {

template <std::size_t N>
std::optional<std::size_t> HandleIndex(const std::array<char, N>& handles, const void* handle) {
  for (std::size_t i = 0; i < N; ++i)
    if (handle == &handles[i]) return i;
  return std::nullopt;
}

}  // namespace

std::optional<MigDevice> Session::MigDeviceOf(nvmlDevice_t handle) const {
  const auto index = HandleIndex(mig_devices_, handle);
  return index ? At(*index) : std::nullopt;
}
std::optional<MigDevice> Session::ComputeOf(nvmlComputeInstance_t handle) const {
  const auto index = HandleIndex(computes_, handle);
  return index ? At(*index) : std::nullopt;
}
std::optional<MigInstance> Session::InstanceOf(nvmlGpuInstance_t handle) const {
  const auto index = HandleIndex(instances_, handle);
  return index ? MigInstanceAt(state_.shared(), static_cast<unsigned>(*index)) : std::nullopt;
}

nvmlReturn_t GiveText(char* to, unsigned size, const char* text) {
  if (to == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const std::size_t length = std::strlen(text) + 1;
  if (length > size) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(to, text, length);
  return NVML_SUCCESS;
}

}  // namespace gpuman::sim
