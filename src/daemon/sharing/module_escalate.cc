// The measures against shared jobs that do not give up their place.
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <csignal>

#include "daemon/sharing/module.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

std::string DetailOf(const share::action::Escalate& order) {
  return order.forced ? order.why + ", and a job of another user waits for its place" : order.why;
}

}  // namespace

void SharingModule::Escalate(const share::action::Escalate& order) {
  if (order.how == share::OnNoYield::kWait) return;
  boost::asio::post(core_.loop(), [this, order] {
    if (!core_.jobs().Find(order.tenant) || suspension_.stopped().IsTakenOff(order.tenant)) return;
    if (order.how == share::OnNoYield::kSuspend) return Preempt(order.tenant, order);
    End(order.tenant, DetailOf(order));
  });
}

// A job that does not come to rest by itself is killed without a SIGTERM first.
void SharingModule::End(base::JobId id, const std::string& detail) {
  core_.jobs().Announce(id, {kNotYielded, detail});
  (void)core_.jobs().Signal(id, SIGKILL);
}

// A job whose processes were stopped comes back with its user's next SIGCONT (StoppedJobController).
void SharingModule::Preempt(base::JobId id, const share::action::Escalate& order) {
  const auto may = suspension_.ControllerFor(id);
  const auto detail = DetailOf(order);
  const auto end = [this, id, detail, forced = order.forced](const base::Error& why) {
    if (forced && core_.jobs().Find(id)) End(id, detail + "; it could not be suspended: " + why.message);
  };
  if (!may) return end(may.error());
  if (order.forced) {
    controller_->Tell({id, "share_forced", detail, {}});
    forced_off_[id] = {core_.clock().Mono() + core_.config().suspend.patience + settings().answer_limit,
                       detail};
  }
  const char* const reason = suspension_.stopped().ProcessesOf(id).empty() ? kNotYielded : kProcessStopped;
  suspension_.Suspend(id, {reason, detail}, [this, id, end](const base::Result<>& off) {
    forced_off_.erase(id);
    if (!off) end(off.error());
  });
}

// Ends jobs whose user stops them again and again: such a job neither leaves the GPU nor comes back
// completely.
void SharingModule::EndStoppedAgain() {
  const auto forced = forced_off_;
  for (const auto& [id, by] : forced) {
    const auto stopped = suspension_.stopped().ProcessesOf(id);
    if (core_.clock().Mono() < by.first || stopped.empty()) continue;
    forced_off_.erase(id);
    if (!core_.jobs().Find(id)) continue;
    End(id, fmt::format("{}; it could not be suspended: process {} is stopped again", by.second,
                        stopped.front().pid));
  }
}

}  // namespace gpuman::daemon
