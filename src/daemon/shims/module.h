// The shims of jobs as a capability of the daemon: gives running jobs a ledger with their limits, decides to
// which job a process that asks belongs, and brings the ledgers' figures to the guard, the jobs and the event
// log.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/shims/context_costs.h"
#include "daemon/shims/job_quiescer.h"
#include "daemon/shims/refusals.h"
#include "daemon/shims/shim_channel.h"

namespace gpuman::daemon {

class ShimsModule final : public Module {
 public:
  explicit ShimsModule(Core& core);

  // nullptr: there is no shim, or no socket for it.
  ShimChannel* channel() const { return channel_.get(); }
  // Brings jobs to rest; nullptr exactly where there is no channel.
  JobQuiescer* quiescer() const { return quiescer_.get(); }
  // The socket to which the shims connect.
  std::filesystem::path Socket() const;
  // Asks attribution again about processes for which an earlier answer was kLater.
  void AskAgain();
  // Sets the function that says whether a process of no job may belong to a job that is being made.
  // Registered once.
  void SetIsComing(std::function<bool(base::ProcessId)> is_coming) { is_coming_ = std::move(is_coming); }
  // A sentence if the job's limit is too low for any program that uses CUDA; nullopt: not known to be too
  // low.
  std::optional<std::string> TightLimitOf(const jobs::Job& job) const;
  // The memory that a context takes on the GPU; 0: not known.
  base::Bytes ContextCostOf(const std::string& uuid) const;
  // The peaks of the job on its GPUs, and of the processes that had most: of a run that has ended, as they
  // are recorded.
  std::vector<jobs::MemoryPeak> PeaksOf(const jobs::Job& job) const;
  // Host memory that the job's shims hold.
  base::Bytes HostMemoryOf(base::JobId job) const;

  void Reconfigure() override;
  void OnReady() override;
  bool Stop() override;
  void OnInventory() override;
  void BeforeSample(const gpu::GpuSample& sample) override;
  void OnSample(const gpu::GpuSample& sample) override;
  void OnJobRuns(const jobs::Job& job) override;
  void OnJobLeft(base::JobId job, UnwatchReason why) override;
  void OnJobForgotten(base::JobId job) override;
  void OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) override;
  void SetUpLaunch(jobs::LaunchSettings& settings) const override;
  void Show(const jobs::Job& job, api::JobView& view) const override;
  void AddMetrics(metrics::Snapshot& snapshot) override;

 private:
  void Open();
  ledger::JobAttribution JobOf(const ledger::LedgerRequest& caller) const;
  void TellOtherVersion(base::JobId job, base::ProcessId process, std::uint32_t version);
  void SetLedger(const jobs::Job& job);
  void SetLedgers();
  std::optional<base::Fd> HeldFileOf(base::JobId job) const;
  void WarnOfTightLimits(const jobs::Job& job, const std::vector<ledger::GpuLimit>& limits);
  void LearnContext(const gpu::Gpu& gpu, base::Bytes bytes);
  std::optional<jobs::RefusedAllocation> RefusalOf(const jobs::Job& job) const;
  void TellRefusals();
  void TellRefusal(const jobs::Job& job, const jobs::RefusedAllocation& refusal);
  void TellOverwritten(base::JobId id);
  void EndLockFloods();
  void EndForLocks(base::JobId id);

  Core& core_;
  ContextCosts context_costs_;
  std::unique_ptr<ShimChannel> channel_;
  std::unique_ptr<JobQuiescer> quiescer_;
  std::function<bool(base::ProcessId)> is_coming_;
  RefusalEventLimiter refusals_;
  base::MonoTime looked_for_floods_{};
};

}  // namespace gpuman::daemon
