#include "daemon/daemon.h"

#include <algorithm>

#include "api/routes.h"
#include "base/heap.h"
#include "daemon/containers/module.h"
#include "daemon/core/listen.h"
#include "daemon/device/module.h"
#include "daemon/driver_limits/module.h"
#include "daemon/energy/module.h"
#include "daemon/health/module.h"
#include "daemon/history/module.h"
#include "daemon/jobs/module.h"
#include "daemon/metrics/module.h"
#include "daemon/mig/module.h"
#include "daemon/mps/module.h"
#include "daemon/notify/module.h"
#include "daemon/queue/module.h"
#include "daemon/sharing/module.h"
#include "daemon/shims/module.h"
#include "daemon/status/module.h"
#include "daemon/suspension/module.h"
#include "daemon/systemd_notify.h"
#include "daemon/web/module.h"

namespace gpuman::daemon {
namespace {

constexpr std::chrono::seconds kTrimEvery{30};
constexpr std::size_t kBodiesOfASubmission = 8;   // times http.max_body
constexpr std::size_t kBodiesOfUser = 16u << 20;  // read or answered at a time, in bytes
constexpr std::size_t kBodiesOfAll = 128u << 20;

}  // namespace

base::Result<std::unique_ptr<Daemon>> Daemon::Start(boost::asio::io_context& loop, const Config& config,
                                                    DaemonOptions options) {
  jobs::StoreContents contents;
  GPUMAN_ASSIGN(auto core, Core::Open(loop, config, std::move(options), contents));
  const mode_t mode = core->options().user_mode ? 0600 : 0666;
  GPUMAN_ASSIGN(auto listener, Listen({config.socket, mode, {}}));
  std::unique_ptr<Daemon> daemon(new Daemon(loop, std::move(core)));
  daemon->AddModules();
  daemon->core_->SetUpLaunch();
  for (const auto& module : daemon->modules_) module->Restore(contents);
  daemon->core_->sampling().Start();
  daemon->core_->jobs().Adopt(std::move(contents));
  daemon->Serve(std::move(listener));
  daemon->Tick();
  return daemon;
}

Daemon::Daemon(boost::asio::io_context& loop, std::unique_ptr<Core> core)
    : core_(std::move(core)), tick_(loop) {}

Daemon::~Daemon() {
  Stop();
  while (!modules_.empty()) modules_.pop_back();  // each module before the modules that it uses
}

// Adds each module after the modules that it uses.
void Daemon::AddModules() {
  auto& notify = Add<NotifyModule>();
  auto& shims = Add<ShimsModule>();
  Add<ContainersModule>(shims);
  auto& suspension = Add<SuspensionModule>(shims);
  auto& sharing = Add<SharingModule>(shims, suspension);
  Add<EnergyModule>(suspension, sharing);
  auto& device = Add<DeviceModule>(suspension);
  Add<DriverLimitsModule>();
  auto& mps = Add<MpsModule>();
  auto& mig = Add<MigModule>(suspension, mps);
  auto& health = Add<HealthModule>(suspension);
  auto& queue = Add<QueueModule>(notify, suspension, mig, health);
  auto& jobs = Add<JobsModule>(RequiredModules{notify, shims, suspension, sharing, device, mps, queue});
  Add<HistoryModule>(suspension, sharing, jobs);
  Add<StatusModule>();
  Add<MetricsModule>();
  Add<WebModule>();
}

void Daemon::Stop() {
  if (std::exchange(stopped_, true)) return;
  server_.reset();
  for (auto module = modules_.rbegin(); module != modules_.rend(); ++module)
    if (!(*module)->Stop()) left_a_thread_ = true;
  if (!core_->Stop()) left_a_thread_ = true;
}

void Daemon::Serve(base::Fd listener) {
  for (const auto& module : modules_) module->AddRoutes(router_);
  const auto& config = core_->config();
  http::ServerLimits limits;
  limits.body_bytes = config.http.max_body.count;
  limits.bodies_of_user = std::max(limits.body_bytes, kBodiesOfUser);
  limits.bodies_of_all = std::max(4 * limits.body_bytes, kBodiesOfAll);
  limits.large_path = api::routes::kSubmit.path;
  limits.large_body_bytes = kBodiesOfASubmission * limits.body_bytes;
  limits.goes_first = [this](const http::Peer& peer) {
    return core_->Check(peer, api::Right::kManage).has_value();
  };
  limits.connections = config.http.connections;
  limits.request = config.http.request_timeout;
  limits.idle = config.http.idle_timeout;
  server_ =
      std::make_unique<http::Server>(core_->loop(), std::move(listener), limits,
                                     [this](const http::ExchangePtr& exchange) { router_.Route(exchange); });
}

void Daemon::Tick() {
  core_->sampling().sampler().CheckWatchdog();
  auto period =
      std::chrono::duration_cast<std::chrono::microseconds>(core_->config().sampling.call_limit / 2);
  if (const auto watchdog = WatchdogPeriod()) {
    NotifyAlive();
    period = std::min(period, *watchdog / 3);
  }
  for (const auto& module : modules_) module->OnTick();
  if (const auto now = core_->clock().Mono(); now >= trim_at_) {
    base::ReturnFreeMemory();
    trim_at_ = now + kTrimEvery;
  }
  tick_.expires_after(period);
  tick_.async_wait([this](boost::system::error_code error) {
    if (!error) Tick();
  });
}

}  // namespace gpuman::daemon
