// Answers kubelet's calls about one resource: what there is, what is preferred, what a container gets.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "plugins/kubernetes/config.h"
#include "plugins/kubernetes/pools.h"
#include "plugins/kubernetes/rpc_server.h"

namespace gpuman::kubernetes {

class DeviceService {
 public:
  // `root` is where /proc and /dev begin.
  explicit DeviceService(std::filesystem::path root) : root_(std::move(root)) {}

  // What holds from now on. Whoever watches the devices is told if they have changed.
  void Set(const Config& config, Pool pool, bool away);
  void Handle(std::shared_ptr<ServerCall> call);

 private:
  void Watch(std::shared_ptr<ServerCall> call);
  base::Result<std::string> Prefer(const std::string& request) const;
  base::Result<std::string> Allocate(const std::string& request) const;

  const std::filesystem::path root_;
  Config config_;
  Pool pool_;
  bool away_ = true;
  std::string devices_;  // the list as it was told last
  std::vector<std::shared_ptr<ServerCall>> watchers_;
};

}  // namespace gpuman::kubernetes
