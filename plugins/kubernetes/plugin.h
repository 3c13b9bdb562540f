// The device plugin: serves a socket for each resource, registers it whenever kubelet starts, and keeps the
// devices in step with gpumand.
//
// Kubelet, gpumand and the plugin may start and end in any order. Lives on the event loop; not thread-safe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "plugins/kubernetes/config.h"
#include "plugins/kubernetes/device_service.h"
#include "plugins/kubernetes/gpu_watch.h"
#include "plugins/kubernetes/kubelet_watch.h"
#include "plugins/kubernetes/reporter.h"
#include "plugins/kubernetes/rpc_server.h"

namespace gpuman::kubernetes {

class Plugin {
 public:
  // Fails where the sockets cannot be made, such as in a read-only directory; if the directory does not
  // exist, the plugin waits for kubelet to make it. `root` holds /proc, /sys and /dev.
  static base::Result<std::unique_ptr<Plugin>> Start(boost::asio::io_context& loop, Config config,
                                                     std::filesystem::path root = "/");
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  // Applies another configuration. New directories take effect only with the next start.
  void Reload(Config config);

 private:
  struct Endpoint {
    explicit Endpoint(Plugin& plugin);
    DeviceService service;
    std::unique_ptr<RpcServer> server;
    boost::asio::steady_timer again;  // for the next registration
    unsigned tries = 0;
  };

  Plugin(boost::asio::io_context& loop, Config config, std::filesystem::path root);
  base::Result<> WatchGpumand();
  void OnGpus(Inventory inventory);
  void OnAway(const base::Error& error);
  void Tell();
  // Tells gpumand which devices each container has.
  void Report(Reporter::Done done = [](const base::Result<>&) {});

  base::Result<> Begin();
  void BeginLater();
  base::Result<> Listen(const std::string& resource, Endpoint& endpoint);
  void OnRemoved();
  void ListenAgain();
  void RegisterAll();
  void Register(const std::string& resource);
  void OnRegistered(const std::string& resource, const base::Result<RpcAnswer>& result);
  void KeepWatched(const std::string& resource, Endpoint& endpoint);
  std::filesystem::path KubeletSocket() const { return config_.kubelet / "kubelet.sock"; }
  bool KubeletIsThere() const;

  boost::asio::io_context& loop_;
  const std::filesystem::path root_;
  Config config_;
  Inventory inventory_;
  bool away_ = true;
  std::string away_why_;
  std::set<std::string> logged_;               // problems that are already in the log
  std::map<std::string, Endpoint> endpoints_;  // by resource
  Reporter reporter_;
  std::unique_ptr<KubeletWatch> kubelet_;
  boost::asio::steady_timer later_;  // until the next look for kubelet's directory
  // Tells callbacks that run after the plugin's end that the plugin is gone.
  std::shared_ptr<Plugin*> alive_ = std::make_shared<Plugin*>(this);
  std::unique_ptr<GpuWatch> gpumand_;  // last: its thread ends first
};

}  // namespace gpuman::kubernetes
