// History as a capability of the daemon: records figures of GPUs and jobs each second, answers questions
// about them, and tells the account of each run how busy its GPUs were.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/history/archive.h"
#include "daemon/history/run_utilization.h"

namespace gpuman::daemon {

class JobsModule;
class SharingModule;
class SuspensionModule;

class HistoryModule final : public Module {
 public:
  HistoryModule(Core& core, SuspensionModule& suspension, SharingModule& sharing, JobsModule& jobs)
      : core_(core), suspension_(suspension), sharing_(sharing), jobs_(jobs) {}

  Core& core() { return core_; }
  JobsModule& jobs() { return jobs_; }
  // kUnavailable: nothing is recorded.
  base::Result<const Archive*> archive() const;

  void Restore(jobs::StoreContents& contents) override;
  void AddRoutes(http::Router& router) override;
  void Reconfigure() override;
  bool Stop() override;
  void OnTick() override;
  void OnSample(const gpu::GpuSample& sample) override;
  void AfterSamples(const std::set<std::string>& gpus) override;
  void OnJobLeft(base::JobId job, UnwatchReason why) override;
  void OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) override;
  void OnRunEnded(const jobs::Job& job, jobs::RunAccount& run) override;

 private:
  ArchiveSettings Settings() const;
  std::int64_t Second() const;

  Core& core_;
  SuspensionModule& suspension_;
  SharingModule& sharing_;
  JobsModule& jobs_;
  std::unique_ptr<Archive> archive_;                   // nullptr: before Restore
  std::int64_t jobs_recorded_ = 0;                     // the second
  std::map<base::JobId, RunUtilization> utilization_;  // of present runs
};

}  // namespace gpuman::daemon
