// The health of every GPU that this machine has or had: feeds the monitors, keeps their faults on the disk,
// and tells what changed.
//
//   samples, Xids, kernel's log --> a monitor for each GPU (pure) --> records, notices: HealthCallbacks
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gpu/gpu_sample.h"
#include "gpu/inventory.h"
#include "health/monitor.h"
#include "jobs/store.h"

namespace gpuman::daemon {

struct KernelXid;

struct HealthCallbacks {
  // Writes the records; nullopt: the row is deleted.
  std::function<void(jobs::SettingRows entries)> keep;
  // Called after the monitor has changed.
  std::function<void(const std::string& gpu, const health::HealthNotice& notice)> on_notice;
};

class HealthMonitors {
 public:
  // `clock` must outlive this object. `boot`: the id of this boot of the machine.
  HealthMonitors(const base::Clock& clock, HealthCallbacks callbacks, std::string boot)
      : clock_(clock), callbacks_(std::move(callbacks)), boot_(std::move(boot)) {}

  // Takes over the records that an earlier daemon kept. Call once, before anything else.
  void Recall(const jobs::SettingRows& settings);
  void SetSettings(const health::MonitorSettings& settings);

  void OnInventory(const gpu::Inventory& inventory);
  void OnSample(const gpu::GpuSample& sample);
  void OnXid(const std::string& uuid, unsigned xid);
  // Takes the Xids since the last call in this boot. Xids of GPUs that are not in the inventory are left out.
  void OnKernelLog(const std::vector<KernelXid>& xids, const gpu::Inventory& inventory);

  // `code` empty: all faults of the GPU. kNotFound: there is no such fault that is not acknowledged. A GPU
  // that is missing is forgotten once its fault is acknowledged.
  base::Result<> Acknowledge(const std::string& uuid, const std::string& code, const std::string& by);

  // nullptr: the GPU was never seen.
  const health::Monitor* Find(const std::string& uuid) const;
  bool IsUnhealthy(const std::string& uuid) const;
  // GPUs that were in this machine and are missing now.
  std::vector<std::string> Missing() const;

 private:
  struct MonitoredGpu {
    explicit MonitoredGpu(const health::MonitorSettings& settings) : monitor(settings) {}
    health::Monitor monitor;
    std::vector<health::HealthFault> stored;
    bool is_stored = false;
    bool missing = false;
  };

  health::Timestamp Now() const { return {clock_.Mono(), clock_.Wall()}; }
  std::chrono::microseconds SinceBoot() const;
  MonitoredGpu& EntryOf(const std::string& uuid);
  void Tell(const std::string& uuid, const health::Notices& notices);
  void KeepLogTime();

  const base::Clock& clock_;
  const HealthCallbacks callbacks_;
  const std::string boot_;
  health::MonitorSettings settings_;
  std::map<std::string, MonitoredGpu> gpus_;  // by UUID
  std::chrono::microseconds log_read_to_{0};
};

}  // namespace gpuman::daemon
