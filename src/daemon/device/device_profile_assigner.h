// Decides which jobs get the device profile that they ask for. A job gets it while it is alone on the GPU,
// since settings apply to the whole GPU: no other job and no program outside all jobs may be there. gpuman's
// own processes do not count.
//
// Not thread-safe; makes no calls to the driver or the system.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "daemon/device/device_settings_manager.h"
#include "gpu/inventory.h"
#include "guard/guard.h"

namespace gpuman::daemon {

// A job that runs.
struct RunningJob {
  base::JobId id;
  std::string profile;  // empty: the job asks for none
  // UUIDs; nullopt: the job may use every whole GPU.
  std::optional<std::vector<std::string>> gpus{};
};

class DeviceProfileAssigner {
 public:
  struct Decision {
    std::map<std::string, JobDeviceProfile> given;  // by GPU
    // Jobs that do not get their profile, and why; only what is new since the last call.
    std::map<base::JobId, std::string> refused;
  };
  // `statuses`: the latest samples, by UUID. `in_force`: the job whose profile the GPU has now.
  Decision Follow(const std::vector<RunningJob>& running, const gpu::Inventory& inventory,
                  const std::map<std::string, guard::GpuStatus>& statuses,
                  const std::function<std::optional<std::int64_t>(const std::string& uuid)>& in_force);
  // The driver refused the job's profile. This is remembered until the run is over.
  void SetRefused(base::JobId job, std::string why) { refused_[job] = std::move(why); }
  void Forget(base::JobId job) { refused_.erase(job); }
  // The reasons why the job runs without its profile, each a sentence.
  std::vector<std::string> NotesOf(base::JobId job) const;

 private:
  std::map<base::JobId, std::string> not_given_, refused_;
  // GPUs on which a job that asks for a profile is not alone, with the time of the first sample that showed
  // it.
  std::map<std::string, base::MonoTime> doubted_;
};

}  // namespace gpuman::daemon
