// Passes the administrators' settings of the queue to the dispatcher.
#include <fmt/format.h>

#include <vector>

#include "daemon/queue/module.h"
#include "guard/policy.h"

namespace gpuman::daemon {
namespace {

// The configured bounds on waiting and running jobs hold for every user without a quota of them.
void SetLimits(queue::SnapshotUpdater& book, const QueueAdminSettings& books, const Config& config,
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
  const auto usual = books.quotas.find({subject, "*"});
  const auto others = usual == books.quotas.end() ? api::QuotaLimits{} : usual->second;
  book.SetUsual(kind, quota(others), shares(others));
  for (const auto& [key, limits] : books.quotas) {
    if (key.subject != subject || key.name == "*") continue;
    book.SetQuota(kind, key.name, quota(limits));
    book.SetShares(kind, key.name, shares(limits));
  }
}

}  // namespace

void QueueModule::SetBooks() {
  auto protected_names = guard::DefaultProtectedNames();
  protected_names.insert(core_.config().guard.protected_names.begin(),
                         core_.config().guard.protected_names.end());
  dispatcher_->SetProtectedNames(std::move(protected_names));
  auto& book = dispatcher_->book();
  for (const auto kind : {queue::AccountKind::kUser, queue::AccountKind::kProject})
    SetLimits(book, books_, core_.config(), kind);
  std::vector<queue::ReservationSpec> reservations;
  for (const auto& [id, kept] : books_.reservations)
    reservations.push_back(
        {id, fmt::format("reservation {}", id), kept.devices, kept.start, kept.end, {kept.user}});
  book.SetReservations(reservations);
  dispatcher_->SetSettings(core_.config().queue.pass, core_.config().queue.quota_window);
  dispatcher_->SetState(books_.state);
  dispatcher_->Wake();
}

}  // namespace gpuman::daemon
