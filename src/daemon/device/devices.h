// The settings of this machine's GPUs as they are wanted: changed, kept over restarts, set again when the
// driver has forgotten them, watched for drift.
//
//   change --> read the GPUs --> plan --> keep the records --> set, look, undo on failure --> keep, answer
//
// Each arrow is a step of its own: reading and setting happen on the device worker, keeping in the store. One
// change works on a GPU at a time, others wait for it. A driver call that does not come back within the limit
// ends the change with an error; its GPUs take no other until it does, and are then brought to what is
// wanted.
//
// Decisions are device/plan.h's; this class carries them out. Belongs to the event loop.
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
class DeviceHost {
 public:
  virtual ~DeviceHost() = default;
  // Entries of the settings table, nullopt: to be deleted. `done`: on the disk, or not.
  virtual void KeepDevices(jobs::SettingRows entries, std::function<void(base::Result<>)> done) = 0;
  // `work` on a worker's thread, then `then` here.
  virtual void Drive(driver::NvmlExecutor::Work work, std::function<void()> then) = 0;
  virtual void TellDevice(const char* kind, const std::string& gpu, const std::string& message) = 0;
  // A job runs without the profile that it asked for.
  virtual void TellProfileRefused(std::int64_t job, const std::string& gpu, const std::string& why) = 0;
  // Programs on the GPU, for people: "pid 71 (python, job 3)"; empty: none are known.
  virtual std::string UsersOf(const std::string& gpu) = 0;
};

struct DeviceSettings {
  bool mend_drift = false;
  base::Millis check{30'000};
  base::Millis call_limit{10'000};        // for one reading, or all steps of one change
  std::vector<device::Profile> profiles;  // besides those that are built in
};

struct DeviceReport {
  struct Step {
    gpu::Gpu gpu;
    device::Step step;
  };
  bool dry_run = false;
  std::vector<Step> steps;          // done, or in a dry run: that would be
  std::vector<gpu::Gpu> cleared{};  // whose error counters are set to zero
  bool lifetime = false;            // those of its life; else since the driver was loaded
  std::vector<std::string> notes;   // sentences
};

// What a change makes of the record of one GPU; notes are for who asked.
using DeviceDraft = std::function<base::Result<device::SettingsRecord>(
    const gpu::Gpu& gpu, const device::SettingsRecord& record, const device::Reading& reading,
    std::vector<std::string>& notes)>;

struct DeviceTask {
  std::vector<gpu::Gpu> gpus;
  DeviceDraft draft;
  std::optional<bool>
      clear_ecc{};  // error counters: true: of its lifetime, false: since the driver was loaded
  bool dry_run = false;
  bool anew = false;   // also what the driver cannot be asked for
  bool go_on = false;  // a failure ends nothing and undoes nothing
};

struct DeviceState {
  gpu::Gpu gpu;
  base::Result<device::Reading> reading;
  device::SettingsRecord record;
  std::vector<device::Drift> drift;
};

// The profile that a job has a GPU run with.
struct JobProfile {
  std::int64_t job = 0;
  std::string profile;
  friend bool operator==(const JobProfile&, const JobProfile&) = default;
};

class Devices {
 public:
  using Done = std::function<void(base::Result<DeviceReport>)>;

  // All must outlive this object.
  Devices(const base::Clock& clock, DeviceHost& host);
  ~Devices();

  // What an earlier daemon kept. Call once, before anything else.
  void Recall(const jobs::SettingRows& settings);
  void SetSettings(DeviceSettings settings) { settings_ = std::move(settings); }

  void OnInventory(const gpu::Inventory& inventory);
  // It could not be talked to, and can again: it may have been reset.
  void OnBack(const std::string& uuid);
  // At least once a second or so: periods, ends of profiles, calls that do not come back.
  void OnTime();
  // By GPU; those that are missing run with none. Says something of the GPUs that the inventory names now: on
  // one that comes later, what an earlier daemon put on stays until it is said anew.
  void SetJobProfiles(std::map<std::string, JobProfile> profiles);

  // Calls `done` once, later.
  void Run(DeviceTask task, Done done);
  void Query(std::vector<gpu::Gpu> gpus, std::function<void(std::vector<DeviceState>)> done);

  // nullptr: there is none of that name.
  const device::Profile* FindProfile(std::string_view name) const;
  std::vector<device::Profile> Profiles() const;
  // kNotFound says which there are.
  base::Result<> CheckProfile(const std::string& name) const;
  // Wanted and found to be otherwise, by GPU.
  std::vector<device::Drift> DriftOf(const std::string& uuid) const;
  // The job whose profile the GPU has; nullopt: none.
  std::optional<std::int64_t> ProfiledJob(const std::string& uuid) const;

 private:
  struct Device {
    std::optional<gpu::Gpu> gpu;  // nullopt: not among the driver's
    device::SettingsRecord record;
    std::vector<device::Drift> drift;
    std::optional<std::uint64_t> energy_mj;  // when it was looked at last
    std::string trouble;                     // that was told
    std::optional<JobProfile> refused;       // could not be given, and is not tried again
    bool is_judged = false;                  // SetJobProfiles was called since it came
    bool busy = false;
    std::optional<base::MonoTime> stuck_since;
  };
  enum class Stage { kReading, kKeeping, kSetting };
  struct Change;
  struct PendingQuery;

  // devices_run.cc
  void Begin(std::unique_ptr<Change> change);
  base::Detached Carry(std::shared_ptr<Change> change);
  base::Callback<std::monostate> Drive(driver::NvmlExecutor::Work work);
  base::Callback<base::Result<>> Keep(jobs::SettingRows entries);
  void EnterDriver(Change& change, Stage stage);
  static driver::NvmlExecutor::Work Reading(const Change& change);
  base::Result<> Plan(Change& change);
  static jobs::SettingRows EntriesOf(const Change& change);
  static driver::NvmlExecutor::Work Setting(const Change& change);
  base::Result<DeviceReport> Settle(Change& change);
  void Finish(std::uint64_t id, base::Result<DeviceReport> result);
  void GiveUp(Change& change);
  base::Error ErrorOf(const Change& change, const device::Outcome& outcome) const;
  void StartWaiting();
  std::string NameOf(const std::string& uuid) const;

  Device& DeviceOf(const std::string& uuid) { return devices_[uuid]; }
  base::WallTime Now() const { return clock_.Wall(); }
  void Store(const std::string& uuid, const device::SettingsRecord& record);
  void Reapply(const std::string& uuid, const std::string& why);
  void EndProfiles();
  void FollowJobs(const std::string& uuid);
  void BeginChecks();
  void OnChecked(const std::string& uuid, const base::Result<device::Reading>& reading);
  void TellDrift(const std::string& uuid, std::vector<device::Drift> drift);
  void TellTrouble(const std::string& uuid, const std::string& what);
  void OnQueried(std::uint64_t id, std::size_t index, base::Result<device::Reading> reading);
  void EndQuery(std::uint64_t id);

  const base::Clock& clock_;
  DeviceHost& host_;
  DeviceSettings settings_;
  std::map<std::string, Device> devices_;  // by UUID
  std::map<std::string, JobProfile> job_profiles_;
  base::MonoTime check_at_{};
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Change>> changes_;  // under way; shared with the worker
  std::deque<std::unique_ptr<Change>> waiting_;
  std::map<std::uint64_t, std::unique_ptr<PendingQuery>> queries_;
};

}  // namespace gpuman::daemon
