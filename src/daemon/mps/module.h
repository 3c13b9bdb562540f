// MPS as a capability of the daemon: keeps MPS running on the GPUs where it is wanted, and finds a GPU for
// jobs that are clients of MPS.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/request_batcher.h"
#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/mps/manager.h"
#include "daemon/mps/views.h"

namespace gpuman::daemon {

class MpsModule final : public Module {
 public:
  explicit MpsModule(Core& core);

  Core& core() { return core_; }
  MpsManager& manager() { return *manager_; }
  const MpsManager& manager() const { return *manager_; }
  // The data that views of MPS are made from.
  MpsViewSources Context();
  // The GPU on which a client of MPS is to work: the named one, else a GPU where MPS runs; of several, one
  // that is fit, and of those the one with the fewest clients.
  base::Result<std::string> Choose(const std::vector<std::string>& named,
                                   const std::function<bool(const gpu::Gpu&)>& is_unfit) const;
  // Calls `then` when MPS runs on all of these GPUs, or with the error. Where MPS does not run, it is started
  // if mps.auto_start says so.
  void WhenRunning(std::vector<std::string> gpus, std::function<void(base::Result<>)> then);
  // Whether clients on this GPU can have shares of its time, where MPS runs, or has to run already.
  base::Result<> MayHaveShares(const std::string& gpu) const;

  // Somebody who wants to see the report. All that wait share one look and one report.
  struct Reader {
    std::function<void(const api::MpsReport&)> take;
    std::function<bool()> is_cancelled{};  // as base::WaitingRequests has it
  };
  void AddReader(Reader reader) { readers_.Add(std::move(reader)); }

  void Restore(jobs::StoreContents& contents) override;
  void AddRoutes(http::Router& router) override;
  void Reconfigure() override;
  bool Stop() override;
  void OnJobLeft(base::JobId job, UnwatchReason why) override;

 private:
  std::vector<std::string> VariablesOf(const jobs::Job& job) const;
  void BeforeStart(const jobs::Job& job, std::function<void()> then);
  void TellMissing(const jobs::Job& job, const std::string& why) const;

  Core& core_;
  std::unique_ptr<MpsManager> manager_;
  base::RequestBatcher<Reader> readers_;
};

}  // namespace gpuman::daemon
