// Finds containers of Kubernetes among the processes that use GPUs, and has those held that were given some.
//
// A container is looked for when a process of no job is seen: on a GPU, or by its shim. Until the table has
// been told, and for a moment until kubelet has written a container's name down, it is said to be coming.
// Lives on the event loop; not thread-safe.
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
    std::function<void(const base::ProcessContainer&, const api::GivenContainer&, pid_t)> hold;
    std::function<bool(const api::GivenContainer&)> is_held;
  };

  // `logs`: kubelet's, /var/log.
  Containers(std::filesystem::path logs, Callbacks callbacks)
      : logs_(std::move(logs)), callbacks_(std::move(callbacks)) {}

  void SetTable(std::vector<api::GivenContainer> table);
  const std::vector<api::GivenContainer>& table() const { return table_; }

  // A process of no job. True: its container's job is being made, or may be soon.
  bool IsComing(base::ProcessId process, base::MonoTime now);
  // No job could be made of it; or it has ended.
  void Drop(const std::string& id);
  // Whether somebody's name was waited for since this was asked: who was told that a job is coming should ask
  // again.
  bool TakeWaits() { return std::exchange(waits_, false); }

 private:
  enum class Stage { kNew, kBeingMade, kNobody };
  struct Seen {
    base::MonoTime since{};
    Stage stage = Stage::kNew;
  };

  const std::filesystem::path logs_;
  const Callbacks callbacks_;
  bool told_ = false;
  bool waits_ = false;
  std::vector<api::GivenContainer> table_;
  std::map<std::string, Seen> seen_;     // by the container's id
  std::set<base::ProcessId> strangers_;  // of no container that was given anything
};

}  // namespace gpuman::daemon
