// Holds the wanted settings of this machine's GPUs: changes them, keeps them over restarts, sets them again
// when the driver has forgotten them, and watches for drift.
//
//   change --> read the GPUs --> plan --> keep the records --> set, look, undo on failure --> keep, answer
//
// Each arrow is a separate step: the device worker reads and sets, the store keeps. Only one change at a time
// works on a GPU; other changes of that GPU wait. If a driver call does not return within the limit, the
// change ends with an error. Its GPUs take no other change until the call returns; then they get the wanted
// settings.
//
// device/plan.h decides; this class carries the decisions out. Belongs to the event loop.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/coroutine.h"
#include "device/applier.h"
#include "device/plan.h"
#include "device/profile.h"
#include "driver/nvml_executor.h"
#include "gpu/inventory.h"
#include "jobs/store.h"

namespace gpuman::daemon {

// What the devices need of the daemon.
struct DeviceCallbacks {
  // `entries`: setting rows; nullopt: the row is deleted. `done` is called when they are on the disk, or with
  // the error.
  std::function<void(jobs::SettingRows entries, std::function<void(base::Result<>)> done)> keep;
  // Runs `work` on a worker thread, then `then` on the event loop.
  std::function<void(driver::NvmlExecutor::Work work, std::function<void()> then)> drive;
  // Tells an event of the GPU.
  std::function<void(const char* kind, const std::string& gpu, const std::string& message)> tell;
  // A job runs without the profile that it asked for.
  std::function<void(std::int64_t job, const std::string& gpu, const std::string& why)> on_profile_refused;
  // The programs on the GPU, as text for people: "pid 71 (python, job 3)"; empty: none are known.
  std::function<std::string(const std::string& gpu)> users_of;
};

struct DeviceManagementSettings {
  bool mend_drift = false;
  base::Millis check{30'000};
  base::Millis call_limit{10'000};        // for one reading, or all steps of one change
  std::vector<device::Profile> profiles;  // in addition to the built-in ones
};

struct DeviceTaskResult {
  struct Step {
    gpu::Gpu gpu;
    device::DevicePlanStep step;
  };
  bool dry_run = false;
  std::vector<Step> steps;          // steps done; in a dry run: steps that would be done
  std::vector<gpu::Gpu> cleared{};  // GPUs whose error counters are set to zero
  bool lifetime = false;            // counters of the GPU's lifetime; else those since the driver was loaded
  std::vector<std::string> notes;   // sentences
};

// Computes the new record of one GPU from its present one; notes are for the caller that asked for the
// change.
using DeviceDraft = std::function<base::Result<device::SettingsRecord>(
    const gpu::Gpu& gpu, const device::SettingsRecord& record, const device::DeviceReading& reading,
    std::vector<std::string>& notes)>;

struct DeviceTask {
  std::vector<gpu::Gpu> gpus;
  DeviceDraft draft;
  std::optional<bool>
      clear_ecc{};  // error counters: true: of its lifetime, false: since the driver was loaded
  bool dry_run = false;
  bool anew = false;   // also set settings that the driver cannot read back
  bool go_on = false;  // after a failure go on with the other steps, and undo none
};

struct DeviceSettingsState {
  gpu::Gpu gpu;
  base::Result<device::DeviceReading> reading;
  device::SettingsRecord record;
  std::vector<device::Drift> drift;
};

// The profile that a GPU has because a job asked for it.
struct JobDeviceProfile {
  std::int64_t job = 0;
  std::string profile;
  friend bool operator==(const JobDeviceProfile&, const JobDeviceProfile&) = default;
};

class DeviceSettingsManager {
 public:
  using Done = std::function<void(base::Result<DeviceTaskResult>)>;

  // `clock` must outlive this object.
  DeviceSettingsManager(const base::Clock& clock, DeviceCallbacks callbacks);
  ~DeviceSettingsManager();

  // Takes over the records that an earlier daemon kept. Call once, before anything else.
  void Recall(const jobs::SettingRows& settings);
  void SetSettings(DeviceManagementSettings settings) { settings_ = std::move(settings); }

  void OnInventory(const gpu::Inventory& inventory);
  // The driver did not reach the GPU, and reaches it again: the GPU may have been reset.
  void OnBack(const std::string& uuid);
  // Call about once a second: handles periodic checks, ends of profiles, and driver calls that do not return.
  void OnTime();
  // By GPU; a GPU that is missing here has no job's profile. The call applies to the GPUs in the present
  // inventory. A GPU that appears later keeps the profile from an earlier daemon until the next call.
  void SetJobProfiles(std::map<std::string, JobDeviceProfile> profiles);

  // Calls `done` once, later.
  void Run(DeviceTask task, Done done);
  void Query(std::vector<gpu::Gpu> gpus, std::function<void(std::vector<DeviceSettingsState>)> done);

  // nullptr: there is no profile of that name.
  const device::Profile* FindProfile(std::string_view name) const;
  std::vector<device::Profile> Profiles() const;
  // The text of kNotFound names the profiles that exist.
  base::Result<> CheckProfile(const std::string& name) const;
  // The settings of the GPU that were found to differ from the wanted ones.
  std::vector<device::Drift> DriftOf(const std::string& uuid) const;
  // The job whose profile the GPU has; nullopt: no job's.
  std::optional<std::int64_t> ProfiledJob(const std::string& uuid) const;

 private:
  struct Device {
    std::optional<gpu::Gpu> gpu;  // nullopt: the driver does not list it
    device::SettingsRecord record;
    std::vector<device::Drift> drift;
    std::optional<std::uint64_t> energy_mj;   // at the last check
    std::string last_error;                   // the error that was reported last
    std::optional<JobDeviceProfile> refused;  // a profile that could not be set, and is not tried again
    bool is_judged = false;                   // SetJobProfiles was called since the GPU appeared
    bool busy = false;
    std::optional<base::MonoTime> stuck_since;
  };
  enum class ChangeStage { kReading, kKeeping, kSetting };
  struct Change;
  struct PendingQuery;

  // device_settings_manager_run.cc
  void Begin(std::unique_ptr<Change> change);
  base::DetachedCoroutine RunChange(std::shared_ptr<Change> change);
  base::CallbackAwaitable<std::monostate> Drive(driver::NvmlExecutor::Work work);
  base::CallbackAwaitable<base::Result<>> Keep(jobs::SettingRows entries);
  void EnterDriver(Change& change, ChangeStage stage);
  static driver::NvmlExecutor::Work Reading(const Change& change);
  base::Result<> Plan(Change& change);
  static jobs::SettingRows EntriesOf(const Change& change);
  static driver::NvmlExecutor::Work Setting(const Change& change);
  base::Result<DeviceTaskResult> StoreResults(Change& change);
  void Finish(std::uint64_t id, base::Result<DeviceTaskResult> result);
  void GiveUp(Change& change);
  base::Error ErrorOf(const Change& change, const device::ApplyOutcome& outcome) const;
  void StartWaiting();
  std::string NameOf(const std::string& uuid) const;

  Device& DeviceOf(const std::string& uuid) { return devices_[uuid]; }
  base::WallTime Now() const { return clock_.Wall(); }
  void Store(const std::string& uuid, const device::SettingsRecord& record);
  void Reapply(const std::string& uuid, const std::string& why);
  void EndProfiles();
  void FollowJobs(const std::string& uuid);
  void BeginChecks();
  void OnChecked(const std::string& uuid, const base::Result<device::DeviceReading>& reading);
  void TellDrift(const std::string& uuid, std::vector<device::Drift> drift);
  void ReportError(const std::string& uuid, const std::string& what);
  void OnQueried(std::uint64_t id, std::size_t index, base::Result<device::DeviceReading> reading);
  void EndQuery(std::uint64_t id);

  const base::Clock& clock_;
  const DeviceCallbacks callbacks_;
  DeviceManagementSettings settings_;
  std::map<std::string, Device> devices_;  // by UUID
  std::map<std::string, JobDeviceProfile> job_profiles_;
  base::MonoTime check_at_{};
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Change>> changes_;  // in progress; shared with the worker
  std::deque<std::unique_ptr<Change>> waiting_;
  std::map<std::uint64_t, std::unique_ptr<PendingQuery>> queries_;
};

}  // namespace gpuman::daemon
