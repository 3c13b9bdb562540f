// The common beginning of every entry point: checks that the library is initialised, obeys faults that slow
// the call down, and checks the handle and that the GPU is not lost.
#pragma once

#include <unistd.h>

#include "driver/abi/nvml.h"
#include "sim/nvml/session.h"
#include "sim/state/lifecycle.h"

namespace gpuman::sim {

// NOLINTNEXTLINE(google-build-using-namespace): the entry points are written in the vendor's terms
using namespace driver::abi;

// One GPU for the entry points.
struct Gpu {
  Shared& shared;
  unsigned index;
  const GpuStatic& fixed;
  GpuDynamic& now;
  Client& client;
  std::optional<MigDevice> mig{};  // a MIG device: `index`, `fixed` and `now` are those of its GPU instance

  bool Has(std::uint64_t features) const { return (fixed.features & features) == features; }
};

template <typename... Pointers>
bool AnyNull(Pointers... pointers) {
  return ((pointers == nullptr) || ...);
}

// Runs `body(Session&)` when the library is initialised.
template <typename Body>
nvmlReturn_t OnSystem(const char* function, Body body) {
  Session* session = Session::Current();
  if (session == nullptr) return NVML_ERROR_UNINITIALIZED;
  ObeySlowCalls(session->shared(), function, kAllGpus);
  return body(*session);
}

// Runs `body(const Gpu&)` when the library is initialised and the handle's GPU is present. A MIG device is
// refused, since it lacks the properties of a whole GPU (temperature, power, clocks).
template <typename Body>
nvmlReturn_t OnDevice(const char* function, nvmlDevice_t device, Body body) {
  Session* session = Session::Current();
  if (session == nullptr) return NVML_ERROR_UNINITIALIZED;
  const std::optional<unsigned> index = session->IndexOf(device);
  if (!index) return session->MigDeviceOf(device) ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
  Shared& shared = session->shared();
  ObeySlowCalls(shared, function, *index);
  if (shared.gpu[*index].lost.load() != 0) return NVML_ERROR_GPU_IS_LOST;
  return body(Gpu{shared, *index, shared.gpu_static[*index], shared.gpu[*index], session->client()});
}

// The same for a call that also accepts MIG devices: `body` gets the GPU instance as the GPU.
template <typename Body>
nvmlReturn_t OnDeviceOrInstance(const char* function, nvmlDevice_t device, Body body) {
  Session* session = Session::Current();
  if (session == nullptr) return NVML_ERROR_UNINITIALIZED;
  const std::optional<MigDevice> mig = session->MigDeviceOf(device);
  if (!mig) return OnDevice(function, device, body);
  Shared& shared = session->shared();
  ObeySlowCalls(shared, function, mig->instance.gpu);
  if (shared.gpu[mig->instance.gpu].lost.load() != 0) return NVML_ERROR_GPU_IS_LOST;
  const unsigned index = mig->instance.device();
  return body(Gpu{shared, index, shared.gpu_static[index], shared.gpu[index], session->client(), mig});
}

// The same for a call that changes a setting: the real driver allows that only to root.
template <typename Body>
nvmlReturn_t ChangeDevice(const char* function, nvmlDevice_t device, Body body) {
  return OnDevice(function, device, [&](const Gpu& gpu) -> nvmlReturn_t {
    if (geteuid() != 0) return NVML_ERROR_NO_PERMISSION;
    const auto refused = RefusalOf(gpu.shared, function, gpu.index);
    if (!refused) return body(gpu);
    if (*refused == NVML_ERROR_GPU_IS_LOST) gpu.now.lost.store(1);
    return static_cast<nvmlReturn_t>(*refused);
  });
}

// Stores one value through one pointer.
template <typename To, typename From>
nvmlReturn_t Give(To* to, From value) {
  if (to == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *to = static_cast<To>(value);
  return NVML_SUCCESS;
}

nvmlReturn_t GiveText(char* to, unsigned size, const char* text);

inline nvmlEnableState_t Enabled(bool on) { return on ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED; }

}  // namespace gpuman::sim
