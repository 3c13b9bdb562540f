// Containers of Kubernetes as a capability of the daemon: keeps the table of what each container was given,
// makes a job of each container that is seen, and tells containers where the shim is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/container_types.h"
#include "base/container.h"
#include "daemon/containers/containers.h"
#include "daemon/core/core.h"
#include "daemon/core/module.h"

namespace gpuman::daemon {

class ShimsModule;

class ContainersModule final : public Module {
 public:
  ContainersModule(Core& core, ShimsModule& shims);

  Core& core() { return core_; }
  // What all containers of this node were given.
  void SetTable(std::vector<api::ContainerAllocation> given);
  api::ContainersView View() const { return {containers_.table(), files_}; }

  void AddRoutes(http::Router& router) override;
  void OnSample(const gpu::GpuSample& sample) override;

 private:
  Containers::Callbacks MakeCallbacks();
  void OfferShim();
  void TakeProcesses(const guard::GpuStatus& status);
  bool IsComing(base::ProcessId process) { return containers_.IsComing(process, core_.clock().Mono()); }
  bool IsHeld(const api::ContainerAllocation& given) const;
  void Hold(const base::ProcessContainer& container, const api::ContainerAllocation& given, pid_t pid);

  Core& core_;
  ShimsModule& shims_;
  Containers containers_;
  std::optional<api::ContainerMounts> files_;  // nullopt: containers get no shim
};

}  // namespace gpuman::daemon
