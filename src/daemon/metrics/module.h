// Metrics for Prometheus as a capability of the daemon: counts events, and makes an answer from what each
// module adds. A scrape makes no driver call.
#pragma once

#include <memory>
#include <string>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/http/server.h"
#include "daemon/metrics/scrapes.h"
#include "metrics/event_counters.h"

namespace gpuman::daemon {

class MetricsModule final : public Module {
 public:
  explicit MetricsModule(Core& core);

  Core& core() { return core_; }

  // `with_dcgm`: with the metrics for dcgm-exporter's dashboards. Answers are those of Scrapes.
  std::string Text(bool with_dcgm);

  void Restore(jobs::StoreContents& contents) override;
  void AddRoutes(http::Router& router) override;
  bool Stop() override;

 private:
  void Count(const jobs::Event& event);
  std::string NewText(bool with_dcgm);
  void Serve();
  metrics::Device DeviceOf(const guard::GpuStatus& status);
  metrics::Job JobOf(const jobs::Job& job);
  void AddPublicRoutes();

  Core& core_;
  metrics::EventCounters counters_;
  Scrapes scrapes_;
  http::Router public_router_;
  std::unique_ptr<http::Server> public_server_;  // over TCP; nullptr: not configured
};

}  // namespace gpuman::daemon
