#include "daemon/service/service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/health/module.h"
#include "daemon/mig/module.h"
#include "daemon/routes/routes.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
Service::Service(Core& core, NotifyModule& notify, ShimsModule& shims, SuspensionModule& suspension,
                 DeviceModule& device, MpsModule& mps, MigModule& mig, HealthModule& health)
    : core_(core),
      notify_(notify),
      shims_(shims),
      suspension_(suspension),
      device_(device),
      mps_(mps),
      health_(health),
      log_readers_(core.loop()),
      book_writer_(
          books_,
          [this](jobs::SettingRows entries, BookWriter::Done done) {
            core_.Keep(std::move(entries), std::move(done));
          },
          [this] { TellQueueBooks(); }),
      began_(core.clock().Wall()) {
  core_.callbacks().is_needed = [this](base::JobId job) { return dispatcher_ && dispatcher_->IsNeeded(job); };
  core_.sampling().on_xid.Connect([this](const gpu::XidSeen& seen) { tally_.OnXid(seen.uuid, seen.xid); });
  mig.on_split.Connect([this] { dispatcher_->OnInventory(); });
  health_.on_change.Connect([this] {
    if (dispatcher_) dispatcher_->OnInventory();
  });
  health_.SetIsDrained([this](const std::string& uuid) { return books_.state.drained.contains(uuid); });
  BeginMetrics();
  suspension_.controller().on_phase.Connect(
      [this](base::JobId job, suspend::SuspensionPhase phase) { dispatcher_->OnPhase(job, phase); });
}

Service::~Service() = default;

void Service::Restore(jobs::StoreContents& contents) {
  BeginQueue(contents.settings);
  ServeMetrics();
}

void Service::AddRoutes(http::Router& router) { AddAllRoutes(router, *this); }

bool Service::Stop() {
  public_server_.reset();
  dispatcher_.reset();
  return true;
}

void Service::OnInventory() { dispatcher_->OnInventory(); }

void Service::AfterSamples(const std::set<std::string>& gpus) {
  for (const auto& uuid : gpus) dispatcher_->OnSample(uuid);
}

void Service::OnReady() {
  ChargePast();
  dispatcher_->Begin();
}

void Service::OnTick() { ForgetOldAccounts(); }

void Service::Reconfigure() { TellQueueBooks(); }

void Service::OnJobChanged(const jobs::Job& job) { dispatcher_->OnJobChanged(job); }

void Service::OnJobForgotten(base::JobId job) { dispatcher_->OnJobForgotten(job); }

}  // namespace gpuman::daemon
