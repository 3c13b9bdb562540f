// MIG as a capability of the daemon: splits GPUs into instances, and sees to it that nobody is in the way.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/core/signal.h"
#include "daemon/mig/manager.h"
#include "daemon/mig/views.h"

namespace gpuman::daemon {

class MpsModule;
class SuspensionModule;

class MigModule final : public Module {
 public:
  MigModule(Core& core, SuspensionModule& suspension, MpsModule& mps);

  Core& core() { return core_; }
  SuspensionModule& suspension() { return suspension_; }
  MigManager& manager() { return manager_; }
  // It is known which GPUs are in MIG mode, or known anew.
  Signal<> on_split;
  // Who has which GPU: it is not split under them.
  MigHolders Holders() const;
  OwnProcesses Own();
  // Calls `then` once the inventory shows the GPUs so, or after some seconds without.
  void WhenDivided(std::vector<DividedGpu> divisions, std::function<void()> then, int looks = 100);

  void Restore(jobs::StoreContents& contents) override;
  void AddRoutes(http::Router& router) override;
  void Reconfigure() override;
  bool IsReady() const override;
  bool Stop() override;
  void OnInventory() override;

 private:
  void OnSplit();

  Core& core_;
  SuspensionModule& suspension_;
  MpsModule& mps_;
  MigManager manager_;
};

}  // namespace gpuman::daemon
