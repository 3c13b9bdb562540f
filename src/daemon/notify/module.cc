#include "daemon/notify/module.h"

#include <utility>

namespace gpuman::daemon {

NotifyModule::NotifyModule(Core& core)
    : core_(core),
      notifications_(std::make_unique<Notifications>(
          core.loop(), core.workers(), core.clock(), core.store(),
          Notifications::Options{core.options().notifier_program, "gpuman/" + core.options().version},
          core.config().notify, [&core](jobs::Event event) {
            if (event.job) event.tag = core.TagOf({*event.job});
            core.events().Add(std::move(event));
          })) {
  const auto send = [this](const std::vector<jobs::OutboxRow>& rows) { notifications_->OnStored(rows); };
  auto& of_jobs = core_.jobs().callbacks();
  of_jobs.messages_about = [this](const jobs::Job& job, const std::vector<jobs::JobNotice>& notices) {
    return notifications_->About(job, notices);
  };
  of_jobs.on_messages_stored = send;
  auto& of_events = core_.callbacks();
  of_events.messages_about_event = [this](const jobs::Event& event) { return notifications_->About(event); };
  of_events.on_messages_stored = send;
}

void NotifyModule::Restore(jobs::StoreContents& contents) {
  notifications_->Begin(std::exchange(contents.outbox, {}), contents.last_outbox_number);
}

void NotifyModule::Reconfigure() { notifications_->SetSettings(core_.config().notify); }

bool NotifyModule::Stop() {
  notifications_.reset();
  return true;
}

void NotifyModule::AddMetrics(metrics::Snapshot& snapshot) {
  snapshot.notifications_pending = notifications_->Pending();
  snapshot.notifications_failed = notifications_->Failed();
}

}  // namespace gpuman::daemon
