#include "daemon/service/service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/health/views.h"
#include "daemon/routes/routes.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
Service::Service(Core& core, NotifyModule& notify, ShimsModule& shims, SuspensionModule& suspension)
    : core_(core),
      notify_(notify),
      shims_(shims),
      suspension_(suspension),
      log_readers_(core.loop()),
      book_writer_(
          books_,
          [this](jobs::SettingRows entries, BookWriter::Done done) {
            core_.Keep(std::move(entries), std::move(done));
          },
          [this] { TellQueueBooks(); }),
      began_(core.clock().Wall()) {
  auto& callbacks = core_.callbacks();
  callbacks.is_needed = [this](base::JobId job) { return dispatcher_ && dispatcher_->IsNeeded(job); };
  callbacks.mps_variables = [this](const jobs::Job& job) { return MpsVariablesOf(job); };
  core_.sampling().on_xid.Connect([this](const gpu::XidSeen& seen) {
    tally_.OnXid(seen.uuid, seen.xid);
    health_->OnXid(seen.uuid, seen.xid);
  });
  BeginMetrics();
  suspension_.controller().on_phase.Connect(
      [this](base::JobId job, suspend::SuspensionPhase phase) { dispatcher_->OnPhase(job, phase); });
}

Service::~Service() = default;

void Service::Restore(jobs::StoreContents& contents) {
  BeginQueue(contents.settings);
  BeginDevices(contents.settings);
  BeginMig(contents.settings);
  BeginHealth(contents.settings);  // a reboot ends faults, which is told
  BeginMps(contents.settings);
  ServeMetrics();
}

void Service::AddRoutes(http::Router& router) { AddAllRoutes(router, *this); }

bool Service::Stop() {
  public_server_.reset();
  mps_.reset();
  dispatcher_.reset();
  const bool joined = device_worker_->Stop(core_.config().sampling.call_limit);
  mig_->Stop();
  return joined && !mig_->left_a_thread();
}

void Service::OnInventory() {
  health_->OnInventory(core_.whole_gpus());
  devices_->OnInventory(core_.whole_gpus());
  mig_->OnInventory();
  ReadKernelLog();
  dispatcher_->OnInventory();
}

void Service::OnSample(const gpu::Sample& sample) {
  if (!gpu::IsInstance(sample.uuid)) {
    health_->OnSample(sample);
    FollowAway(sample);
  }
}

void Service::AfterSamples(const std::set<std::string>& gpus) {
  for (const auto& uuid : gpus) dispatcher_->OnSample(uuid);
}

bool Service::IsReady() const { return mig_->has_looked(); }

void Service::OnReady() {
  ChargePast();
  dispatcher_->Begin();
}

void Service::OnTick() {
  FollowJobProfiles();
  devices_->OnTime();
  ForgetOldAccounts();
}

void Service::Reconfigure() {
  const auto& config = core_.config();
  health_->SetSettings(config.health.monitor);
  SetUpDevices();
  mig_->SetPeriod(config.mig.check);
  mps_->SetSettings(config.mps);
  TellQueueBooks();
}

void Service::Show(const jobs::Job& job, api::JobView& view) const {
  if (!job.device_profile.empty()) {
    view.device_profile = job.device_profile;
    for (auto& note : job_profiles_.NotesOf(job.id)) view.notes.push_back(std::move(note));
  }
}

void Service::Show(const guard::GpuStatus& status, api::GpuView& view) const {
  view.health =
      HealthViewOf(health_->Find(status.gpu.mig ? status.gpu.mig->parent : status.gpu.uuid), status.sample);
}

void Service::OnJobChanged(const jobs::Job& job) { dispatcher_->OnJobChanged(job); }

void Service::OnJobLeft(base::JobId job, Left /*why*/) { job_profiles_.Forget(job); }

void Service::OnJobForgotten(base::JobId job) { dispatcher_->OnJobForgotten(job); }

}  // namespace gpuman::daemon
