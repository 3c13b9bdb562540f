// Finds containers of Kubernetes among the processes that use GPUs. Makes a job of each container that was
// given GPUs.
//
// The daemon looks for a container when it sees a process of no job on a GPU, or when the shim of such a
// process asks. Until SetTable is called, and for a moment until kubelet has written down the container's
// name, IsComing says that the job is coming. Lives on the event loop; not thread-safe.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/container_types.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/process.h"

namespace gpuman::daemon {

class Containers {
 public:
  struct Callbacks {
    std::function<std::optional<base::ProcessContainer>(pid_t)> container_of;
    // Makes the job of a container that `pid` runs in.
    std::function<void(const base::ProcessContainer&, const api::ContainerAllocation&, pid_t)> hold;
    std::function<bool(const api::ContainerAllocation&)> is_held;
  };

  // `logs`: the directory of kubelet's logs, /var/log.
  Containers(std::filesystem::path logs, Callbacks callbacks)
      : logs_(std::move(logs)), callbacks_(std::move(callbacks)) {}

  void SetTable(std::vector<api::ContainerAllocation> table);
  const std::vector<api::ContainerAllocation>& table() const { return table_; }

  // `process` is of no job. True: the job of its container is being made, or may be made soon.
  bool IsComing(base::ProcessId process, base::MonoTime now);
  // No job could be made of the container `id`, or its job has ended.
  void Drop(const std::string& id);
  // Whether IsComing has waited for a container's name since the last call of this function. A caller that
  // was told that a job is coming should then ask again.
  bool TakeWaits() { return std::exchange(waits_, false); }

 private:
  enum class CreationStage { kNew, kBeingMade, kNobody };
  struct SeenContainer {
    base::MonoTime since{};
    CreationStage stage = CreationStage::kNew;
  };

  const std::filesystem::path logs_;
  const Callbacks callbacks_;
  bool has_table_ = false;
  bool waits_ = false;
  std::vector<api::ContainerAllocation> table_;
  std::map<std::string, SeenContainer> seen_;  // by the container's id
  std::set<base::ProcessId> strangers_;        // processes of no container that was given GPUs
};

}  // namespace gpuman::daemon
