// Information that everybody may see, as a capability of the daemon: version, status, GPUs, jobs, events.
#pragma once

#include "daemon/core/core.h"
#include "daemon/core/module.h"

namespace gpuman::daemon {

class StatusModule final : public Module {
 public:
  explicit StatusModule(Core& core) : core_(core) {}

  Core& core() { return core_; }

  void AddRoutes(http::Router& router) override;

 private:
  void AddEventRoutes(http::Router& router);  // routes_events.cc

  Core& core_;
};

}  // namespace gpuman::daemon
