// What the job manager tells and asks the daemon: tells the guard and the modules of changes of jobs, and
// keeps the account of the energy that runs use.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/kernel_kills.h"
#include "jobs/job_manager.h"

namespace gpuman::daemon {

class Core;
enum class UnwatchReason;

class JobEvents final : public jobs::JobManagerHost {
 public:
  // `core` must outlive this object.
  // `kernel_log`: as KernelKills takes it.
  JobEvents(Core& core, std::filesystem::path kernel_log)
      : core_(core), kernel_kills_(std::move(kernel_log)) {}

  void OnJobChanged(const jobs::Job& job, const jobs::Runtime& runtime) override;
  void OnJobForgotten(base::JobId job) override;
  void OnNotice(const jobs::Job& job, const jobs::Notice& notice) override;
  void OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) override;
  std::optional<jobs::KernelKill> KernelKillOf(const jobs::Job& job,
                                               const keeper::JournalRecord& record) override;
  void OnRunEnded(const jobs::Job& job, jobs::RunAccount& run) override;
  std::vector<jobs::OutboxRow> MessagesAbout(const jobs::Job& job,
                                             const std::vector<jobs::Notice>& notices) override;
  void OnMessagesStored(const std::vector<jobs::OutboxRow>& rows) override;
  bool IsNeeded(base::JobId job) override;
  void OnTrouble(const jobs::Job& job, const std::string& what) override;
  bool IsOffGpu(base::JobId job) override;
  std::optional<base::Bytes> PeakOf(base::JobId job) override;
  std::vector<std::string> AllGpus() override;
  std::map<std::string, unsigned> GpuIndices() override;
  std::vector<std::string> MpsVariablesOf(const jobs::Job& job) override;

 private:
  void Leave(base::JobId job, UnwatchReason why);
  void SetGuarded(const jobs::Job& job, const jobs::Runtime& runtime);
  void RecordEnergy(jobs::Job& job, const keeper::JournalRecord& record);

  Core& core_;
  KernelKills kernel_kills_;
  std::set<base::JobId> watched_;  // jobs that run: the guard and the modules watch them
  std::map<base::JobId, base::MonoTime> stopping_since_;
};

}  // namespace gpuman::daemon
