// Who is told of what happens.
#include "daemon/notify/notifications.h"
#include "daemon/service/service.h"
#include "suspend/record.h"

namespace gpuman::daemon {

void Service::BeginNotifications() {
  notifications_ = std::make_unique<Notifications>(
      core_.loop(), core_.workers(), core_.clock(), core_.store(),
      Notifications::Options{core_.options().notifier_program, "gpuman/" + core_.options().version},
      core_.config().notify, [this](jobs::Event event) {
        if (event.job) event.tag = core_.TagOf({*event.job});
        core_.events().Add(std::move(event));
      });
  auto& callbacks = core_.callbacks();
  callbacks.messages_about_job = [this](const jobs::Job& job, const std::vector<jobs::Notice>& notices) {
    return notifications_->About(job, notices);
  };
  callbacks.messages_about_event = [this](const jobs::Event& event) { return notifications_->About(event); };
  callbacks.on_messages_stored = [this](const std::vector<jobs::OutboxRow>& rows) {
    notifications_->OnStored(rows);
  };
}

base::Result<> Service::CheckNotify(const queue::Notify& asked) const { return notifications_->Check(asked); }

std::string Service::NoteOnNotify(const queue::Notify& asked) const { return notifications_->NoteOn(asked); }

void Service::SaveSuspension(base::JobId id, std::string record, std::function<void()> done) {
  std::vector<jobs::Notice> notices;
  const auto* const job = core_.jobs().Find(id);
  const auto now = suspend::ParseRecord(record);
  if (job && now && now->phase == suspend::SuspensionPhase::kSuspended) {
    const auto before = suspend::ParseRecord(job->suspension);
    if (!before || suspend::JobStateOf(before->phase) != "suspended")
      notices.push_back({"job_suspended", now->detail});
  }
  core_.jobs().SetSuspension(id, std::move(record), notices, std::move(done));
}

}  // namespace gpuman::daemon
