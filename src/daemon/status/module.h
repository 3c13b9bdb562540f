// Information that everybody may see, as a capability of the daemon: version, status, GPUs, jobs, events.
#pragma once

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/status/event_followers.h"

namespace gpuman::daemon {

class StatusModule final : public Module {
 public:
  explicit StatusModule(Core& core) : core_(core) {}

  Core& core() { return core_; }
  EventFollowers& followers() { return followers_; }

  void AddRoutes(http::Router& router) override;

 private:
  void AddEventRoutes(http::Router& router);  // routes_events.cc

  Core& core_;
  EventFollowers followers_;
};

}  // namespace gpuman::daemon
