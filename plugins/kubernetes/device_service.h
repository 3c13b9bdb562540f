// Answers kubelet's calls about one resource: its devices, the preferred ones, what a container gets.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/kubernetes/config.h"
#include "plugins/kubernetes/pools.h"
#include "plugins/kubernetes/rpc_server.h"

namespace gpuman::kubernetes {

class DeviceService {
 public:
  // The service calls this function when a container is about to start; the container waits until the callee
  // calls `then`.
  using BeforeStart = std::function<void(std::function<void(base::Result<>)> then)>;

  // `root` holds /proc and /dev.
  DeviceService(std::filesystem::path root, BeforeStart before_start)
      : root_(std::move(root)), before_start_(std::move(before_start)) {}

  // Replaces the present state. Calls that watch the devices get an answer if the devices have changed.
  void Set(const Config& config, ResourcePool pool, const std::optional<api::ContainerMounts>& files,
           bool away);
  const ResourcePool& pool() const { return pool_; }
  void Handle(std::shared_ptr<ServerCall> call);
  // Whether a call that watches the devices is open.
  bool IsWatched() const;

 private:
  void Watch(std::shared_ptr<ServerCall> call);
  base::Result<std::string> Prefer(const std::string& request) const;
  base::Result<std::string> Allocate(const std::string& request) const;
  void BeforeContainerStarts(std::shared_ptr<ServerCall> call);

  const std::filesystem::path root_;
  const BeforeStart before_start_;
  Config config_;
  ResourcePool pool_;
  std::optional<api::ContainerMounts> files_;
  bool away_ = true;
  std::string devices_;  // the list that was sent last
  std::vector<std::shared_ptr<ServerCall>> watchers_;
};

}  // namespace gpuman::kubernetes
