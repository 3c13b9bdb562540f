// Passes the administrators' settings of the queue to the dispatcher.
#include <fmt/format.h>

#include <vector>

#include "daemon/queue/module.h"
#include "guard/policy.h"

namespace gpuman::daemon {
namespace {

// The configured bounds on waiting and running jobs hold for every user without a quota of them.
void SetLimits(queue::SnapshotUpdater& updater, const QueueAdminSettings& admin, const Config& config,
               queue::AccountKind kind) {
  const bool is_user = kind == queue::AccountKind::kUser;
  const std::string subject = is_user ? "user" : "project";
  const auto quota = [&](const api::QuotaLimits& limits) {
    auto queued = limits.queued_jobs;
    if (!queued && is_user && config.queue.queued_jobs > 0)
      queued = static_cast<int>(config.queue.queued_jobs);
    auto running = limits.running_jobs;
    if (!running && is_user && config.jobs.running_jobs > 0)
      running = static_cast<int>(config.jobs.running_jobs);
    return queue::Quota{running, limits.gpus, queued, limits.gpu_hours, config.queue.quota_window};
  };
  const auto shares = [&](const api::QuotaLimits& limits) { return limits.shares.value_or(is_user ? 1 : 0); };
  const auto usual = admin.quotas.find({subject, "*"});
  const auto others = usual == admin.quotas.end() ? api::QuotaLimits{} : usual->second;
  updater.SetUsual(kind, quota(others), shares(others));
  for (const auto& [key, limits] : admin.quotas) {
    if (key.subject != subject || key.name == "*") continue;
    updater.SetQuota(kind, key.name, quota(limits));
    updater.SetShares(kind, key.name, shares(limits));
  }
}

}  // namespace

void QueueModule::ApplyAdminSettings() {
  auto protected_names = guard::DefaultProtectedNames();
  protected_names.insert(core_.config().guard.protected_names.begin(),
                         core_.config().guard.protected_names.end());
  dispatcher_->SetProtectedNames(std::move(protected_names));
  auto& updater = dispatcher_->updater();
  for (const auto kind : {queue::AccountKind::kUser, queue::AccountKind::kProject})
    SetLimits(updater, admin_settings_, core_.config(), kind);
  std::vector<queue::ReservationSpec> reservations;
  for (const auto& [id, kept] : admin_settings_.reservations)
    reservations.push_back(
        {id, fmt::format("reservation {}", id), kept.devices, kept.start, kept.end, {kept.user}});
  updater.SetReservations(reservations);
  dispatcher_->SetSettings(core_.config().queue.pass, core_.config().queue.quota_window);
  dispatcher_->SetState(admin_settings_.state);
  dispatcher_->Wake();
}

}  // namespace gpuman::daemon
