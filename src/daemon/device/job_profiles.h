// Which jobs get the device profile that they ask for: one that has the GPU to itself. Neither another job
// nor a program of nobody's may be there, since settings are the whole GPU's. gpuman's own are no company.
//
// Not thread-safe; asks nobody.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "daemon/device/devices.h"
#include "gpu/inventory.h"
#include "guard/guard.h"

namespace gpuman::daemon {

// A job that runs.
struct RunningJob {
  base::JobId id;
  std::string profile;  // empty: it asks for none
  // UUIDs; nullopt: it may use every whole GPU.
  std::optional<std::vector<std::string>> gpus{};
};

class JobProfiles {
 public:
  struct Decision {
    std::map<std::string, JobProfile> given;  // by GPU
    // Who does not get one, and why, where that is new.
    std::map<base::JobId, std::string> news;
  };
  // `statuses`: what was seen last, by UUID. `in_force`: the job with whose profile the GPU runs.
  Decision Follow(const std::vector<RunningJob>& running, const gpu::Inventory& inventory,
                  const std::map<std::string, guard::GpuStatus>& statuses,
                  const std::function<std::optional<std::int64_t>(const std::string& uuid)>& in_force);
  // The driver did not take it. Remembered until the run is over.
  void SetRefused(base::JobId job, std::string why) { refused_[job] = std::move(why); }
  void Forget(base::JobId job) { refused_.erase(job); }
  // Why the job runs without the profile, each in a sentence.
  std::vector<std::string> NotesOf(base::JobId job) const;

 private:
  std::map<base::JobId, std::string> not_given_, refused_;
  // GPUs on which a job that asks has company, by the sample in which that was first seen.
  std::map<std::string, base::MonoTime> doubted_;
};

}  // namespace gpuman::daemon
