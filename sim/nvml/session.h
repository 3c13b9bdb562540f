// The simulated NVML's only global: the state that this process initialised it with, and the device handles.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "driver/abi/nvml.h"
#include "sim/state/mig.h"
#include "sim/state/state.h"

namespace gpuman::sim {

class Session {
 public:
  // The session counts calls of nvmlInit and nvmlShutdown. The first Init maps the state that GPUMAN_SIM_DIR
  // names and makes this process a client of the driver; the last Shutdown ends this client but keeps the
  // mapping, since another thread may be inside a call.
  static driver::abi::nvmlReturn_t Init();
  static driver::abi::nvmlReturn_t Shutdown();
  // nullptr when not initialised.
  static Session* Current();

  Shared& shared() { return state_.shared(); }
  Client& client() { return client_; }

  driver::abi::nvmlDevice_t HandleOf(unsigned index);
  std::optional<unsigned> IndexOf(driver::abi::nvmlDevice_t handle) const;

  // The same for MIG. A handle names a place among the instances; nullopt: no instance is there any more.
  driver::abi::nvmlDevice_t HandleOf(const MigDevice& device);
  driver::abi::nvmlGpuInstance_t HandleOf(const MigInstance& instance);
  driver::abi::nvmlComputeInstance_t HandleOf(const MigInstance& instance, unsigned compute_id);
  std::optional<MigDevice> MigDeviceOf(driver::abi::nvmlDevice_t handle) const;
  std::optional<MigInstance> InstanceOf(driver::abi::nvmlGpuInstance_t handle) const;
  std::optional<MigDevice> ComputeOf(driver::abi::nvmlComputeInstance_t handle) const;

 private:
  Session(State state, std::string directory, Session* earlier)
      : state_(std::move(state)), directory_(std::move(directory)), client_(state_), earlier_(earlier) {}

  State state_;
  std::string directory_;
  Client client_;
  // The session of another directory; kept, since a thread may still be inside a call. No code reads it.
  [[maybe_unused]] Session* earlier_;
  // The addresses of these bytes are the handles.
  static constexpr unsigned kComputes = 8;
  std::array<char, kMaxGpus> handles_{};
  std::array<char, kMaxInstances> instances_{};
  std::array<char, kMaxInstances * kComputes> computes_{}, mig_devices_{};
  std::optional<MigDevice> At(std::size_t place) const;
};

}  // namespace gpuman::sim
