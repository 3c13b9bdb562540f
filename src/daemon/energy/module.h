// Energy as a capability of the daemon: what each job uses of the energy that the counters of its GPUs tell.
// docs/energy.md says how it is split.
//
//   samples, watched counters --Read------+
//   jobs, turns, suspensions, processes --+--> EnergyAccount of each GPU ----> runs' accounts, views, metrics
//                         --SetHolders----+                                --> settings "energy/GPU-UUID"
//
// The sampler's threads read the counters. They read the counters more often while the holders of a GPU
// change.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/weak_self.h"
#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/energy/holders.h"
#include "energy/energy_account.h"

namespace gpuman::daemon {

class SharingModule;
class SuspensionModule;

class EnergyModule final : public Module {
 public:
  EnergyModule(Core& core, SuspensionModule& suspension, SharingModule& sharing);

  // Joules of the job's present run until now, as far as they were read; nullopt: not measured.
  std::optional<double> UsedBy(base::JobId job) const;

  void Restore(jobs::StoreContents& contents) override;
  bool Stop() override;
  void OnTick() override;
  void OnSample(const gpu::GpuSample& sample) override;
  void AfterSamples(const std::set<std::string>& gpus) override;
  void OnJobChanged(const jobs::Job& job) override;
  void OnJobRuns(const jobs::Job& job) override;
  void OnJobLeft(base::JobId job, UnwatchReason why) override;
  void OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) override;
  void Show(const jobs::Job& job, api::JobView& view) const override;
  void AddMetrics(metrics::Snapshot& snapshot) override;

 private:
  struct Run {
    std::set<std::string> gpus;  // on which it is, or was
    bool seen = false;           // from its beginning
  };
  using PresentByGpu = std::map<std::string, std::vector<GpuOccupant>>;

  void Begin(const jobs::Job& job, bool seen);
  void Include(const jobs::Job& job, Run& run);
  std::optional<energy::Millijoules> EndOf(const jobs::Job& job);
  void UpdateSoon();
  void Update();
  void NoteProcessesOfJobs();
  PresentByGpu Present() const;
  void AddPresence(const jobs::Job& job, bool idle,
                   const std::map<base::JobId, std::set<std::string>>& processes,
                   PresentByGpu& present) const;
  void SetWork(const guard::GpuStatus& status, std::vector<GpuOccupant>& present) const;
  void KeepSoon();
  void Keep();

  Core& core_;
  SuspensionModule& suspension_;
  SharingModule& sharing_;
  std::map<std::string, energy::EnergyAccount> accounts_;  // by UUID, of whole GPUs
  std::map<base::JobId, Run> runs_;
  // By UUID: how much each process worked, as the last sample told.
  struct Work {
    base::MonoTime at{};
    std::map<pid_t, unsigned> of{};
  };
  std::map<std::string, Work> work_;
  // By UUID: processes of jobs that are there. One whose job has ended stays in the list of the last sample
  // for a moment, and is not a stranger's.
  std::map<std::string, std::set<base::ProcessId>> of_jobs_;
  // By UUID: who was there at the last update, without weights.
  std::map<std::string, std::vector<std::pair<base::JobId, bool>>> seen_;
  bool updates_soon_ = false;
  boost::asio::steady_timer keep_;
  bool keeps_soon_ = false;
  base::MonoTime keep_at_{};
  std::map<std::string, std::string> kept_;  // as it was written last
  base::WeakSelf<EnergyModule> self_{this};
};

}  // namespace gpuman::daemon
