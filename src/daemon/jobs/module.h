// The capability of the daemon by which users run, submit, attach, change, suspend and repeat jobs, and read
// their logs. The job manager and the queue do the work; this module checks the caller's rights and the
// request.
#pragma once

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/jobs/caller_cache.h"
#include "daemon/jobs/log_reader_pool.h"

namespace gpuman::daemon {

class DeviceModule;
class MpsModule;
class NotifyModule;
class QueueModule;
class SharingModule;
class ShimsModule;
class SuspensionModule;

// The modules that provide what a job may ask for.
struct RequiredModules {
  NotifyModule& notify;
  ShimsModule& shims;
  SuspensionModule& suspension;
  SharingModule& sharing;
  DeviceModule& device;
  MpsModule& mps;
  QueueModule& queue;
};

class JobsModule final : public Module {
 public:
  JobsModule(Core& core, RequiredModules uses)
      : core_(core), uses_(uses), log_readers_(core.loop()), callers_(core.clock()) {}

  Core& core() { return core_; }
  NotifyModule& notify() { return uses_.notify; }
  ShimsModule& shims() { return uses_.shims; }
  SuspensionModule& suspension() { return uses_.suspension; }
  SharingModule& sharing() { return uses_.sharing; }
  DeviceModule& device() { return uses_.device; }
  MpsModule& mps() { return uses_.mps; }
  QueueModule& queue() { return uses_.queue; }
  LogReaderPool& log_readers() { return log_readers_; }
  CallerCache& callers() { return callers_; }

  void AddRoutes(http::Router& router) override;

 private:
  void AddSuspendRoutes(http::Router& router);  // routes_suspend.cc
  void AddAttachRoutes(http::Router& router);   // routes_attach.cc
  void AddSubmitRoutes(http::Router& router);   // routes_submit.cc
  void AddStoryRoutes(http::Router& router);    // routes_story.cc
  void AddRedoRoutes(http::Router& router);     // routes_redo.cc

  Core& core_;
  RequiredModules uses_;
  LogReaderPool log_readers_;
  CallerCache callers_;
};

}  // namespace gpuman::daemon
