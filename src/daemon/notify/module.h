// Notifications as a capability of the daemon: decides who gets which message about jobs and events.
#pragma once

#include <memory>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/notify/notifications.h"

namespace gpuman::daemon {

class NotifyModule final : public Module {
 public:
  explicit NotifyModule(Core& core);

  const Notifications& notifications() const { return *notifications_; }

  void Restore(jobs::StoreContents& contents) override;
  void Reconfigure() override;
  bool Stop() override;
  void AddMetrics(metrics::Snapshot& snapshot) override;

 private:
  Core& core_;
  std::unique_ptr<Notifications> notifications_;
};

}  // namespace gpuman::daemon
