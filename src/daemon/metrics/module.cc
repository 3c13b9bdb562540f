#include "daemon/metrics/module.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/host_name.h"
#include "daemon/core/listen.h"
#include "metrics/render.h"

namespace gpuman::daemon {
namespace {

// A scraper has one connection, or a few. Further connections are not kept open.
constexpr std::size_t kPublicConnections = 32;
constexpr std::size_t kPublicBody = 1024;

double Seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

std::optional<double> WaitOf(const jobs::Job& job, std::string_view kind) {
  if (kind != "job_started" || !job.queued || !job.started_at) return std::nullopt;
  return std::max(Seconds(*job.started_at - job.waiting_since), 0.0);
}

// The job's part on one GPU; nullopt where the job has nothing to do with that GPU.
std::optional<metrics::JobPart> PartOf(const jobs::Job& job, const std::vector<std::string>& gpus,
                                       const gpu::Gpu& gpu, const guard::JobUsage& usage) {
  const bool may = std::find(gpus.begin(), gpus.end(), gpu.uuid) != gpus.end();
  const auto used = usage.by_gpu.find(gpu.uuid);
  if (!may && used == usage.by_gpu.end()) return std::nullopt;
  metrics::JobPart part;
  part.gpu = gpu::NumberOf(gpu);
  part.uuid = gpu.uuid;
  if (used != usage.by_gpu.end()) part.used = used->second;
  if (may && job.spec->memory) part.limit = job.spec->memory->Of(gpu.memory);
  if (may && job.spec->soft) part.soft = job.spec->soft->Of(gpu.memory);
  return part;
}

}  // namespace

MetricsModule::MetricsModule(Core& core) : core_(core), scrapes_(core.clock()) {
  core_.events().Follow([this](const jobs::Event& event) { Count(event); });
  core_.sampling().on_xid.Connect(
      [this](const gpu::XidEvent& seen) { counters_.OnXid(seen.uuid, seen.xid); });
}

void MetricsModule::Restore(jobs::StoreContents& /*contents*/) { Serve(); }

bool MetricsModule::Stop() {
  public_server_.reset();
  return true;
}

void MetricsModule::Count(const jobs::Event& event) {
  metrics::Event counted{event.kind, {}, event.data, {}};
  if (const auto* const job = event.job ? core_.jobs().Find({*event.job}) : nullptr) {
    counted.owner = metrics::CountedOwner{job->owner->user, job->spec->project.value_or("")};
    counted.waited_seconds = WaitOf(*job, event.kind);
  }
  counters_.On(counted);
}

// A missing metrics port must not stop the daemon: where the address is in use, the daemon runs without this
// server.
void MetricsModule::Serve() {
  if (!core_.config().metrics.listen) return;
  auto listener = Listen(*core_.config().metrics.listen);
  if (!listener) return spdlog::error("metrics are not served over TCP: {}", listener.error().message);
  AddPublicRoutes();
  http::ServerLimits limits;
  limits.body_bytes = kPublicBody;
  limits.connections = kPublicConnections;
  limits.request = core_.config().http.request_timeout;
  limits.idle = core_.config().http.idle_timeout;
  public_server_ = std::make_unique<http::Server>(
      core_.loop(), std::move(*listener), limits,
      [this](const http::ExchangePtr& exchange) { public_router_.Route(exchange); });
  spdlog::info("metrics are served on http://{}/metrics", core_.config().metrics.listen->text);
}

// The modules add their own data (Module::AddMetrics).
metrics::Device MetricsModule::DeviceOf(const guard::GpuStatus& status) {
  metrics::Device device;
  device.gpu = status.gpu;
  device.sample = &status.sample;
  device.reserve = core_.guard().ReserveOf(status.gpu.uuid);
  for (const auto& process : status.processes) {
    if (process.job || !process.memory) continue;
    if (process.ours)
      device.movers += *process.memory;
    else
      device.unmanaged[process.uid ? core_.NameOf(*process.uid) : "unknown"].memory += *process.memory;
  }
  return device;
}

metrics::Job MetricsModule::JobOf(const jobs::Job& job) {
  const auto usage = core_.UsageOf(job.id);
  metrics::Job shown;
  shown.id = job.id.value;
  shown.tag = job.tag;
  shown.user = job.owner->user;
  if (job.container) {
    shown.name_space = job.container->name_space;
    shown.pod = job.container->pod;
    shown.container = job.container->name;
  }
  shown.project = job.spec->project.value_or("");
  shown.peak = std::max(usage.peak, job.peak);
  shown.restarts = job.restarts;
  const auto gpus = job.gpus.empty() && !job.queued ? core_.AllGpus() : job.gpus;
  for (const auto& gpu : core_.inventory().gpus)
    if (auto part = PartOf(job, gpus, gpu, usage)) shown.parts.push_back(std::move(*part));
  return shown;
}

std::string MetricsModule::Text(bool with_dcgm) {
  core_.sampling().WantDetails();
  return scrapes_.Answer(with_dcgm, [&] { return NewText(with_dcgm); });
}

std::string MetricsModule::NewText(bool with_dcgm) {
  metrics::Snapshot snapshot;
  static const std::string host = base::HostName().value_or("unknown");
  snapshot.host = host;
  snapshot.version = core_.options().version;
  snapshot.driver_version = core_.inventory().driver_version;
  for (const auto& gpu : core_.inventory().gpus)
    if (const auto* const status = core_.guard().Find(gpu.uuid))
      snapshot.devices.push_back(DeviceOf(*status));
  for (const auto* const job : core_.jobs().Active()) snapshot.jobs.push_back(JobOf(*job));
  for (auto* const module : core_.modules()) module->AddMetrics(snapshot);
  snapshot.counters = counters_;
  snapshot.rounds = core_.sampling().sampler().Rounds();
  snapshot.self = metrics::ReadSelfCost();
  snapshot.scrapes = scrapes_.count();
  snapshot.scrape_seconds = scrapes_.seconds();
  return metrics::Render(snapshot, with_dcgm);
}

}  // namespace gpuman::daemon
