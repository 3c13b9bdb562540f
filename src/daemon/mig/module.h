// MIG as a capability of the daemon: splits GPUs into instances, and does not split a GPU that a job or MPS
// holds.
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
  // It became known which GPUs are in MIG mode, or that may have changed.
  Signal<> on_split;
  // The holders of GPUs. A GPU with a holder is not split.
  MigHolders Holders() const;
  OwnProcesses Own();
  // Calls `then` once the inventory shows these divisions, or after some seconds even if it does not.
  void WhenDivided(std::vector<ExpectedDivision> divisions, std::function<void()> then, int polls = 100);

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
