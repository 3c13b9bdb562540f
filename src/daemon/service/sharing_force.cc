// Shared jobs that do not give up their place: what follows of that, and what is shown of it.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>

#include "daemon/service/service.h"
#include "daemon/sharing/share_controller.h"
#include "daemon/stopped.h"

namespace gpuman::daemon {
namespace {

constexpr const char* kNotYielded = "share_not_yielded";
// A signal is taken when its process runs next.
constexpr base::Millis kShowsStopped{10'000};

}  // namespace

// Who does not come to rest by itself is not asked.
void Service::EndForSharing(base::JobId id, const std::string& detail) {
  core_.jobs().Announce(id, {kNotYielded, detail});
  (void)core_.jobs().Signal(id, SIGKILL);
}

void Service::Escalate(const share::action::Escalate& order) {
  if (order.how == share::OnNoYield::kWait) return;
  boost::asio::post(core_.loop(), [this, order] {
    if (!core_.jobs().Find(order.tenant) || taking_off_.contains(order.tenant)) return;
    if (order.how == share::OnNoYield::kSuspend) return TakeOffForSharing(order.tenant, order);
    EndForSharing(order.tenant,
                  order.forced ? order.why + ", and a job of another user waits for its place" : order.why);
  });
}

// By a signal: those can be let go on.
std::vector<base::ProcessId> Service::StoppedProcessesOf(base::JobId job) {
  std::vector<base::ProcessId> stopped;
  const auto* const record = suspend_controller_->RecordOf(job);
  for (const auto& view : ProcessesOf(job, record ? *record : suspend::SuspensionRecord{}))
    if (IsStopped(view.id) == StoppedBy::kSignal) stopped.push_back(view.id);
  return stopped;
}

// Neither its shim nor the driver does anything about a stopped process, so it is let run until it is off the
// GPU, and stopped again then, as its user left it.
void Service::SuspendAlsoStopped(SuspendController& suspend_controller, base::JobId id,
                                 suspend::event::SuspendAsked asked, SuspendController::Done done) {
  const auto stopped = StoppedProcessesOf(id);
  for (const auto& process : stopped) (void)base::SendSignal(process, SIGCONT);
  if (!stopped.empty()) taking_off_.insert(id);
  suspend_controller.Suspend(
      id, std::move(asked), [this, id, stopped, done = std::move(done)](base::Result<> off) {
        if (!stopped.empty()) taking_off_.erase(id);
        const auto* const job = core_.jobs().Find(id);
        const bool runs = job && job->state == jobs::JobState::kRunning;  // one that ends is not held up
        for (const auto& process : stopped)
          if (runs) (void)base::SendSignal(process, SIGSTOP);
        if (const auto known = stopped_off_.find(id); known != stopped_off_.end() && !stopped.empty())
          known->second = core_.clock().Mono() + kShowsStopped;
        done(std::move(off));
      });
}

// One that was stopped comes back with its user's next SIGCONT (ResumeContinued).
void Service::TakeOffForSharing(base::JobId id, const share::action::Escalate& order) {
  const auto suspend_controller = SuspendControllerFor(*core_.jobs().Find(id));
  const std::string detail =
      order.forced ? order.why + ", and a job of another user waits for its place" : order.why;
  const auto end = [this, id, detail, forced = order.forced](const base::Error& why) {
    if (forced && core_.jobs().Find(id))
      EndForSharing(id, detail + "; it could not be suspended: " + why.message);
  };
  if (!suspend_controller) return end(suspend_controller.error());
  if (order.forced) {
    TellSharing({id, "share_forced", detail, {}});
    forced_off_[id] = {
        core_.clock().Mono() + core_.config().suspend.patience + share_controller_->settings().answer_limit,
        detail};
  }
  const char* const reason = StoppedProcessesOf(id).empty() ? kNotYielded : kProcessStopped;
  SuspendAlsoStopped(**suspend_controller, id, {reason, detail}, [this, id, end](const base::Result<>& off) {
    forced_off_.erase(id);
    if (!off) end(off.error());
  });
}

// One that its user stops again and again neither leaves the GPU nor comes to the end of its way back.
void Service::EndStoppedAgain() {
  const auto forced = forced_off_;
  for (const auto& [id, by] : forced) {
    const auto stopped = StoppedProcessesOf(id);
    if (core_.clock().Mono() < by.first || stopped.empty()) continue;
    forced_off_.erase(id);
    if (!core_.jobs().Find(id)) continue;
    EndForSharing(id, fmt::format("{}; it could not be suspended: process {} is stopped again", by.second,
                                  stopped.front().pid));
  }
}

// Their users have let them go on.
void Service::ResumeContinued() {
  const auto jobs = stopped_off_;
  for (const auto& [id, shows_by] : jobs) {
    const auto* const record = suspend_controller_->RecordOf(id);
    if (!record || taking_off_.contains(id)) continue;
    const bool stopped = std::any_of(record->held.begin(), record->held.end(),
                                     [](const auto& held) { return IsStopped(held.first).has_value(); });
    if (stopped)
      stopped_off_[id] = {};
    else if (core_.clock().Mono() >= shows_by)
      suspend_controller_->Resume(id, std::nullopt, [](const base::Result<>&) {});
  }
}

void Service::ShowSharing(const jobs::Job& job, api::JobView& view) const {
  if (!share_controller_ || !job.share || view.reason || view.state != api::JobState::kRunning) return;
  const auto obstacle = share_controller_->ObstacleOf(job.id);
  if (!obstacle) return;
  if (obstacle->tenant == job.id) {
    view.reason = kNotYielded;
    view.reason_detail = obstacle->why + "; it runs on and keeps its place on the GPU";
    return;
  }
  view.reason = "share_wait";
  view.reason_detail =
      fmt::format("waits for the place of job {} '{}', which does not yield: {}", obstacle->tenant.value,
                  core_.TagOf(obstacle->tenant).value_or(""), obstacle->why);
}

}  // namespace gpuman::daemon
