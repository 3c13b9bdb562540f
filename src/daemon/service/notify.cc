// Who is told of what happens.
#include "daemon/notify/notifications.h"
#include "daemon/service/service.h"
#include "suspend/record.h"

namespace gpuman::daemon {

void Service::BeginNotifications() {
  notifications_ = std::make_unique<Notifications>(
      loop_, workers_, clock_, *store_,
      Notifications::Options{options_.notifier_program, "gpuman/" + options_.version}, config_.notify,
      [this](jobs::Event event) {
        if (event.job) event.tag = TagOf({*event.job});
        events_->Add(std::move(event));
      });
}

std::vector<jobs::OutboxRow> Service::MessagesAbout(const jobs::Job& job,
                                                    const std::vector<jobs::Notice>& notices) {
  return notifications_->About(job, notices);
}

void Service::OnMessagesStored(const std::vector<jobs::OutboxRow>& rows) { notifications_->OnStored(rows); }

base::Result<> Service::CheckNotify(const queue::Notify& asked) const { return notifications_->Check(asked); }

std::string Service::NoteOnNotify(const queue::Notify& asked) const { return notifications_->NoteOn(asked); }

void Service::SaveSuspension(base::JobId id, std::string record, std::function<void()> done) {
  std::vector<jobs::Notice> notices;
  const auto* const job = job_manager_->Find(id);
  const auto now = suspend::ParseRecord(record);
  if (job && now && now->phase == suspend::SuspensionPhase::kSuspended) {
    const auto before = suspend::ParseRecord(job->suspension);
    if (!before || suspend::JobStateOf(before->phase) != "suspended")
      notices.push_back({"job_suspended", now->detail});
  }
  job_manager_->SetSuspension(id, std::move(record), notices, std::move(done));
}

}  // namespace gpuman::daemon
