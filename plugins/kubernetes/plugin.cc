#include "plugins/kubernetes/plugin.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "plugins/kubernetes/messages.h"
#include "plugins/kubernetes/rpc_client.h"

namespace gpuman::kubernetes {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRegistrationPatience{5000};   // for kubelet's answer
constexpr milliseconds kFirstRegistrationPause{100};  // between attempts while kubelet refuses connections
constexpr milliseconds kLongestRegistrationPause{5000};
constexpr milliseconds kRefusedPause{30'000};  // after kubelet has refused the registration
constexpr milliseconds kWatchPause{10'000};    // between looks whether kubelet watches the devices
constexpr milliseconds kDirectoryPause{2000};

std::string FileOf(std::string resource) {
  std::replace(resource.begin(), resource.end(), '/', '_');  // a domain has no '_', so names stay distinct
  return resource + ".sock";
}

}  // namespace

Plugin::Endpoint::Endpoint(Plugin& plugin)
    : service(plugin.root_, [&plugin](Reporter::Done then) { plugin.Report(std::move(then)); }),
      again(plugin.loop_) {}

Plugin::Plugin(boost::asio::io_context& loop, Config config, std::filesystem::path root)
    : loop_(loop),
      root_(std::move(root)),
      config_(std::move(config)),
      reporter_(loop, config_.gpumand,
                [this](const std::vector<ContainerDeviceIds>& allocations) {
                  std::vector<ResourcePool> pools;
                  for (const auto& [resource, endpoint] : endpoints_)
                    pools.push_back(endpoint.service.pool());
                  return TableOf(allocations, pools);
                }),
      later_(loop) {}

base::Result<std::unique_ptr<Plugin>> Plugin::Start(boost::asio::io_context& loop, Config config,
                                                    std::filesystem::path root) {
  std::unique_ptr<Plugin> plugin(new Plugin(loop, std::move(config), std::move(root)));
  for (const auto& resource : plugin->config_.resources)
    plugin->endpoints_.try_emplace(resource.name, *plugin);
  plugin->Tell();
  GPUMAN_TRY(plugin->Begin());
  GPUMAN_TRY(plugin->WatchGpumand());
  return plugin;
}

Plugin::~Plugin() { gpumand_.reset(); }

base::Result<> Plugin::WatchGpumand() {
  const auto on_loop = [this, alive = std::weak_ptr(alive_)](auto act) {
    boost::asio::post(loop_, [alive, act = std::move(act)]() mutable {
      if (const auto self = alive.lock()) act(**self);
    });
  };
  GpuWatch::Listener listener;
  listener.on_gpus = [on_loop](Inventory inventory) {
    on_loop([inventory = std::move(inventory)](Plugin& self) mutable { self.OnGpus(std::move(inventory)); });
  };
  listener.on_away = [on_loop](base::Error error) {
    on_loop([error = std::move(error)](Plugin& self) { self.OnAway(error); });
  };
  GPUMAN_ASSIGN(gpumand_, GpuWatch::Start(config_.gpumand, root_, std::move(listener)));
  return {};
}

void Plugin::OnGpus(Inventory inventory) {
  const bool is_back = std::exchange(away_, false);
  if (is_back) spdlog::info("gpumand answers: {} GPUs", inventory.gpus.size());
  away_why_.clear();
  inventory_ = Merge(inventory_, std::move(inventory));
  Tell();
  if (is_back) Report();
}

void Plugin::Report(Reporter::Done done) {
  if (config_.limits && !away_) return reporter_.Report(config_.pod_resources, std::move(done));
  done(base::Fail(base::ErrorCode::kUnavailable, "gpumand does not answer"));
}

void Plugin::OnAway(const base::Error& error) {
  if (away_why_ != error.message)
    spdlog::warn("no device is healthy: gpumand does not answer: {}", error.message);
  away_ = true;
  away_why_ = error.message;
  Tell();
}

void Plugin::Tell() {
  auto pools = MakePools(config_, inventory_);
  for (auto& problem : pools.problems) {
    if (logged_.insert(problem).second) spdlog::error("{}", problem);
  }
  std::erase_if(logged_, [&](const auto& told) {
    return std::find(pools.problems.begin(), pools.problems.end(), told) == pools.problems.end();
  });
  for (auto& pool : pools.pools) {
    const auto name = pool.resource.name;
    endpoints_.at(name).service.Set(config_, std::move(pool), inventory_.files, away_);
  }
}

void Plugin::Reload(Config config) {
  if (config.kubelet != config_.kubelet || config.gpumand != config_.gpumand)
    spdlog::warn("kubelet.directory and gpumand.socket take effect with the next start");
  config.kubelet = config_.kubelet;
  config.gpumand = config_.gpumand;
  config_ = std::move(config);
  std::erase_if(endpoints_, [&](const auto& entry) {
    return std::none_of(config_.resources.begin(), config_.resources.end(),
                        [&](const auto& resource) { return resource.name == entry.first; });
  });
  for (const auto& resource : config_.resources) endpoints_.try_emplace(resource.name, *this);
  Tell();
  Report();
  if (kubelet_) ListenAgain();
}

base::Result<> Plugin::Begin() {
  const auto later = [this](auto act) {
    return [this, act, alive = std::weak_ptr(alive_)] {
      boost::asio::post(loop_, [act, alive] {
        if (const auto self = alive.lock()) act(**self);
      });
    };
  };
  KubeletWatch::Listener listener;
  listener.on_socket = later([](Plugin& self) {
    self.ListenAgain();
    self.RegisterAll();
  });
  listener.on_removed = later([](Plugin& self) { self.OnRemoved(); });
  listener.on_lost = later([](Plugin& self) {
    spdlog::warn("{} is gone; waiting for it", self.config_.kubelet.string());
    self.kubelet_.reset();
    self.BeginLater();
  });
  auto kubelet = KubeletWatch::Start(loop_, config_.kubelet, std::move(listener));
  if (!kubelet && kubelet.error().code == base::ErrorCode::kNotFound) {
    spdlog::warn("there is no {} yet: is kubelet running here?", config_.kubelet.string());
    BeginLater();
    return {};
  }
  if (!kubelet) return base::Fail(std::move(kubelet.error()));
  for (auto& [resource, endpoint] : endpoints_) GPUMAN_TRY(Listen(resource, endpoint));
  kubelet_ = std::move(*kubelet);
  if (!KubeletIsThere()) spdlog::info("kubelet is not there yet; waiting for {}", KubeletSocket().string());
  RegisterAll();
  return {};
}

void Plugin::BeginLater() {
  later_.expires_after(kDirectoryPause);
  later_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    std::error_code ignored;
    if (!std::filesystem::is_directory(config_.kubelet, ignored)) return BeginLater();
    if (auto begun = Begin(); !begun) {
      spdlog::error("{}", begun.error().message);
      BeginLater();
    }
  });
}

base::Result<> Plugin::Listen(const std::string& resource, Endpoint& endpoint) {
  endpoint.server.reset();
  GPUMAN_ASSIGN(endpoint.server, RpcServer::Listen(loop_, config_.kubelet / FileOf(resource),
                                                   [&endpoint](std::shared_ptr<ServerCall> call) {
                                                     endpoint.service.Handle(std::move(call));
                                                   }));
  return {};
}

void Plugin::OnRemoved() {
  if (KubeletIsThere()) return ListenAgain();
  // A kubelet that starts removes all sockets, and creates its own when it is ready. Otherwise the directory
  // is being removed: the kernel reports the end of the directory once no process listens there.
  for (auto& [resource, endpoint] : endpoints_)
    if (endpoint.server && !endpoint.server->IsThere()) endpoint.server.reset();
}

void Plugin::ListenAgain() {
  for (auto& [resource, endpoint] : endpoints_) {
    if (endpoint.server && endpoint.server->IsThere()) continue;
    if (auto listening = Listen(resource, endpoint); !listening) {
      spdlog::error("{}: {}", resource, listening.error().message);
      continue;
    }
    endpoint.tries = 0;
    Register(resource);
  }
}

bool Plugin::KubeletIsThere() const {
  std::error_code ignored;
  return std::filesystem::exists(KubeletSocket(), ignored);
}

void Plugin::RegisterAll() {
  for (auto& [resource, endpoint] : endpoints_) {
    endpoint.tries = 0;
    Register(resource);
  }
}

void Plugin::Register(const std::string& resource) {
  const auto found = endpoints_.find(resource);
  if (found == endpoints_.end()) return;  // no longer in the configuration
  found->second.again.cancel();
  if (!KubeletIsThere()) return;  // the watch reports its return
  kubernetes::Call(loop_, KubeletSocket(), kRegisterMethod,
                   EncodeRegistration(FileOf(resource), resource, config_.limits), kRegistrationPatience,
                   [resource, alive = std::weak_ptr(alive_)](const base::Result<RpcAnswer>& result) {
                     if (const auto self = alive.lock()) (*self)->OnRegistered(resource, result);
                   });
}

void Plugin::OnRegistered(const std::string& resource, const base::Result<RpcAnswer>& result) {
  const auto found = endpoints_.find(resource);
  if (found == endpoints_.end()) return;
  auto& endpoint = found->second;
  if (result && result->status.code == RpcCode::kOk) {
    endpoint.tries = 0;
    spdlog::info("{} is registered with kubelet", resource);
    KeepWatched(resource, endpoint);
    return Report();
  }
  milliseconds pause = kRefusedPause;
  if (result) {
    spdlog::error("kubelet does not take {}: {} (protocol {})", resource, result->status.message,
                  kProtocolVersion);
  } else {
    pause =
        std::min(kFirstRegistrationPause * (1 << std::min(endpoint.tries, 6u)), kLongestRegistrationPause);
    if (++endpoint.tries == 5) spdlog::warn("{} is not registered: {}", resource, result.error().message);
  }
  endpoint.again.expires_after(pause);
  endpoint.again.async_wait([this, resource](boost::system::error_code error) {
    if (!error) Register(resource);
  });
}

// When kubelet's call that watches the devices has ended, kubelet does not repeat the call: it waits for
// another registration, and offers no devices meanwhile.
void Plugin::KeepWatched(const std::string& resource, Endpoint& endpoint) {
  endpoint.again.expires_after(kWatchPause);
  endpoint.again.async_wait([this, resource](boost::system::error_code error) {
    if (error) return;
    const auto found = endpoints_.find(resource);
    if (found == endpoints_.end()) return;  // no longer in the configuration
    if (found->second.service.IsWatched()) return KeepWatched(resource, found->second);
    if (KubeletIsThere()) spdlog::warn("kubelet does not watch {}; registering it again", resource);
    Register(resource);
  });
}

}  // namespace gpuman::kubernetes
