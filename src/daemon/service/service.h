// What the daemon does beside its core: a module for all capabilities that have none of their own yet.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/container_types.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/fair_queue.h"
#include "base/sliced_work.h"
#include "base/time_budget.h"
#include "base/timed_process_table.h"
#include "daemon/config/config.h"
#include "daemon/core/core.h"
#include "daemon/core/event_log.h"
#include "daemon/core/list_answers.h"
#include "daemon/core/module.h"
#include "daemon/core/user_names.h"
#include "daemon/device/devices.h"
#include "daemon/device/job_profiles.h"
#include "daemon/health/monitors.h"
#include "daemon/http/router.h"
#include "daemon/http/server.h"
#include "daemon/log_readers.h"
#include "daemon/mig/manager.h"
#include "daemon/mps/manager.h"
#include "daemon/queue/book_writer.h"
#include "daemon/queue/dispatcher.h"
#include "daemon/queue/queue_state.h"
#include "daemon/queue/stats.h"
#include "daemon/sharing/share_controller_host.h"
#include "daemon/shims/context_costs.h"
#include "daemon/shims/refusals.h"
#include "daemon/shims/shim_channel.h"
#include "daemon/suspension/memory_limits.h"
#include "daemon/suspension/suspend_controller.h"
#include "gpu/sampler.h"
#include "guard/guard.h"
#include "jobs/job_manager.h"
#include "jobs/store_worker.h"
#include "metrics/snapshot.h"

namespace gpuman::daemon {

// The reason of a job that was suspended because its processes were stopped: it comes back when they go on.
inline constexpr const char* kProcessStopped = "process_stopped";

class Containers;
class Notifications;
struct MigDivision;
struct OwnProcesses;
struct MpsContext;
class ShareController;

class Service final : public Module,
                      private SuspendControllerHost,
                      private DispatcherHost,
                      private ShareControllerHost,
                      private HealthHost,
                      private DeviceHost,
                      private MigHost,
                      private MpsHost {
 public:
  explicit Service(Core& core);
  ~Service() override;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void Restore(jobs::StoreContents& contents) override;
  void AddRoutes(http::Router& router) override;
  void Reconfigure() override;
  bool IsReady() const override;
  void OnReady() override;
  void OnTick() override;
  bool Stop() override;
  void OnInventory() override;
  void BeforeSample(const gpu::Sample& sample) override;
  void OnSample(const gpu::Sample& sample) override;
  void AfterSamples(const std::set<std::string>& gpus) override;
  void OnJobChanged(const jobs::Job& job) override;
  void OnJobRuns(const jobs::Job& job) override;
  void OnJobLeft(base::JobId job, Left why) override;
  void OnJobForgotten(base::JobId job) override;
  void OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) override;
  void OnRunEnded(const jobs::Job& job, const jobs::RunAccount& run) override;
  void SetUpLaunch(jobs::LaunchSettings& settings) const override;
  void Show(const jobs::Job& job, api::JobView& view) const override;
  void Show(const guard::GpuStatus& status, api::GpuView& view) const override;

  // --- For the routes ---
  Core& core() { return core_; }
  LogReaders& log_readers() { return log_readers_; }
  // That no program that uses CUDA can live with the job's limit; nullopt: it can, as far as is known.
  std::optional<std::string> TightLimitOf(const jobs::Job& job) const;
  // For a job that runs or is suspended. kConflict: it does neither; kNotSupported: it is in an instance
  // (MIG).
  base::Result<SuspendController*> SuspendControllerFor(const jobs::Job& job);
  HealthMonitors& health() { return *health_; }
  Devices& devices() { return *devices_; }
  void TellDeviceChange(const DeviceReport& report, const std::string& by);
  // For Prometheus; without what is there for dcgm-exporter's dashboards unless `with_dcgm`. Where it is
  // asked for more often than there is time for, the answer is the last one.
  std::string MetricsText(bool with_dcgm);
  MigManager& mig() { return *mig_; }
  MigHolders MigHoldersNow() const;
  OwnProcesses OwnProcessesNow();
  // Calls `then` once movers that have nothing to do have left their GPUs, or after some seconds.
  void WhenIdleMoversLeft(std::function<void()> then);
  // Calls `then` once the inventory shows the GPUs so, or after some seconds without.
  void WhenDivided(std::vector<MigDivision> divisions, std::function<void()> then, int looks = 100);
  // --- MPS ---
  MpsManager& mps() { return *mps_; }
  MpsContext MpsView();
  // The GPU on which a client of MPS is to work: the one that is named, else the one where MPS runs, and of
  // several the one with the fewest clients.
  base::Result<std::string> ChooseMps(const std::vector<std::string>& named);
  // Calls when MPS runs on all of these, or with why not: where it does not it is started if mps.auto_start
  // says so.
  void ReadyMps(std::vector<std::string> gpus, std::function<void(base::Result<>)> then);
  // --- Containers of Kubernetes ---
  // What they were given, all of them.
  void SetContainers(std::vector<api::GivenContainer> given);
  api::ContainersView ContainersNow() const;
  ShareController* share_controller() { return share_controller_.get(); }  // null: there is no shim
  // Only where there is a share controller. Until the next start, or reload.
  void SetShare(share::SchedulerSettings settings);
  // --- The queue ---
  Dispatcher& queue() { return *dispatcher_; }
  const QueueBooks& queue_books() const { return books_; }
  // What the queue is told; changed by one after the other.
  BookWriter& book_writer() { return book_writer_; }
  // The accounts of runs that ended in [since, until), and the jobs that have not; for `user`, and no further
  // once `*gone`.
  void AddUp(StatsBy by, base::WallTime since, base::WallTime until, uid_t user, std::shared_ptr<bool> gone,
             std::function<void(base::Result<api::StatsView>)> done);
  api::QueueInfo QueueInfo();
  // suspended where it is off its GPU.
  api::JobState StateOf(const jobs::Job& job) const;
  // With what the queue says of it, at the price of a view of the queue (Dispatcher::IsViewCheap).
  api::JobView ViewWithQueue(const jobs::Job& job);
  // The same by a snapshot that there is. In full: with what a waiting job is in front by.
  api::JobView ViewBy(const QueueSnapshot& snapshot, const jobs::Job& job, bool in_full);
  // kInvalidArgument: nothing is sent there. What the asker should know, else: empty, nothing.
  base::Result<> CheckNotify(const queue::Notify& asked) const;
  std::string NoteOnNotify(const queue::Notify& asked) const;

 private:
  void OpenShims();
  void BeginNotifications();
  std::filesystem::path ShimSocket() const;
  ledger::Attribution JobOfShim(const ledger::Caller& caller) const;
  // containers.cc
  void BeginContainers();
  void LookForContainers(const guard::GpuStatus& status);
  bool ContainerIsComing(base::ProcessId process) const;
  void HoldContainer(const base::ProcessContainer& container, const api::GivenContainer& given, pid_t pid);
  void TellOtherShim(base::JobId job, base::ProcessId process, std::uint32_t version);
  void SetLedger(const jobs::Job& job);
  void WarnOfTightLimits(const jobs::Job& job, const std::vector<ledger::GpuLimit>& limits);
  void RecallContexts();
  void ExpectContexts();
  void LearnContext(const gpu::Gpu& gpu, base::Bytes bytes);
  void LookAtLedgers(const guard::GpuStatus& status);
  std::optional<jobs::RefusedAllocation> RefusalOf(const jobs::Job& job) const;
  void TellRefusals();
  void TellRefusal(const jobs::Job& job, const jobs::RefusedAllocation& refusal);
  void KeepRefusal(jobs::Job& job, const keeper::JournalRecord& record);

  // SuspendControllerHost
  std::vector<suspend::ProcessView> ProcessesOf(base::JobId job,
                                                const suspend::SuspensionRecord& record) override;
  std::vector<suspend::GpuView> Gpus() override;
  suspend::BytesByGpu FreeMemory() override;
  std::map<std::string, base::MonoTime> SampledAt() override;
  base::Result<> Order(base::JobId job, base::ProcessId process, const ledger::Command& command) override;
  std::optional<suspend::MoverUser> OwnerOf(base::JobId job) override;
  std::vector<Movable> MovableMemory() override;
  base::Bytes ContextCostOf(const std::string& gpu) override;
  int PriorityOf(base::JobId job) override;
  bool TakesTurns(base::JobId job) override;
  base::Bytes HostMemoryOf(base::JobId job) override;
  base::Bytes HostMemoryOfTurns(base::JobId but) override;
  void SaveSuspension(base::JobId job, std::string record, std::function<void()> done) override;
  void TellSuspension(base::JobId job, const suspend::action::Emit& event) override;
  void OnMoved(base::JobId job, const std::string& gpu) override;
  void OnPhase(base::JobId job, suspend::SuspensionPhase phase) override;
  void LiftHostLimit(const jobs::Job& job, suspend::SuspensionPhase phase);

  // HealthHost
  void KeepHealth(jobs::SettingRows entries) override;
  void OnHealth(const std::string& gpu, const health::Notice& notice) override;
  void BeginHealth(const jobs::SettingRows& settings);
  void ReadKernelLog();
  // MpsHost
  void KeepMps(jobs::SettingRows entries) override;
  void TellMps(const std::string& kind, const std::string& gpu, const std::string& message,
               std::map<std::string, std::int64_t> data) override;
  std::vector<pid_t> MpsProcessesOn(const std::string& gpu) override;
  std::string DescribeMpsClient(pid_t pid) override;
  void BeginMps(const jobs::SettingRows& settings);
  // In its instances, too. `status`: one of the guard's.
  std::vector<base::JobId> JobsOn(const guard::GpuStatus& status) const;
  void LeaveUnhealthy(const guard::GpuStatus& status, const std::string& why);
  std::optional<std::string> HealthyBeside(const gpu::Gpu& gpu) const;

  // DeviceHost
  void KeepDevices(jobs::SettingRows entries, std::function<void(base::Result<>)> done) override;
  void Drive(device::Worker::Work work, std::function<void()> then) override;
  void TellDevice(const char* kind, const std::string& gpu, const std::string& message) override;
  void TellProfileRefused(std::int64_t job, const std::string& gpu, const std::string& why) override;
  std::string UsersOf(const std::string& gpu) override;
  void BeginDevices(const jobs::SettingRows& settings);
  void SetUpDevices();
  void FollowAway(const gpu::Sample& sample);
  void FollowJobProfiles();
  void TellProfileNotGiven(base::JobId id, const std::string& why);
  // metrics.cc
  void BeginMetrics();
  void ServeMetrics();
  metrics::Device MetricsOf(const guard::GpuStatus& status);
  metrics::Job MetricsOf(const jobs::Job& job);
  std::vector<metrics::Shared> SharedMetrics();
  metrics::Queue QueueMetrics() const;
  // MigHost
  void KeepMig(jobs::SettingRows entries, std::function<void(base::Result<>)> done) override;
  void TellMig(const gpu::Gpu& gpu, const char* kind, const std::string& text) override;
  const gpu::Inventory& GpusToSplit() override { return core_.whole_gpus(); }
  void OnSplit() override;
  void BeginMig(const jobs::SettingRows& settings);
  std::set<pid_t> OwnPids();
  void WhenEnded(std::set<pid_t> processes, std::function<void()> then, int looks);

  // DispatcherHost
  const gpu::Inventory& GpuInventory() override { return core_.inventory(); }
  // Nothing new starts on it.
  bool IsOutOfUse(const gpu::Gpu& gpu) override;
  std::string NameOfUser(uid_t uid) override { return core_.NameOf(uid); }
  const std::set<std::string>& ProtectedNames() override { return protected_names_; }
  bool IsPreempted(base::JobId job) override;
  void PreemptJob(base::JobId job, const std::string& why, Done done) override;
  void ResumeJob(base::JobId job, std::optional<std::string> gpu, Done done) override;
  void MoveTo(base::JobId job, const std::string& gpu, Done done) override;
  base::Result<SuspendController*> SuspendControllerOf(base::JobId id);
  void BeginQueue(const jobs::SettingRows& settings);
  void TellQueueBooks();
  void ChargePast();
  void ForgetOldAccounts();

  // ShareControllerHost
  std::vector<SharedJob> SharedJobs() override;
  const std::map<std::string, guard::GpuStatus>& GpuStatuses() override { return core_.guard().Statuses(); }
  base::Bytes ReserveOf(const std::string& gpu) override { return core_.guard().ReserveOf(gpu); }
  base::Bytes HostMemoryLeft() override;
  void TellSharing(const share::action::Report& report) override;
  void Escalate(const share::action::Escalate& order) override;
  void BeginSharing();
  // What follows where a job does not give up its place; service/sharing_force.cc.
  void TakeOffForSharing(base::JobId job, const share::action::Escalate& order);
  void EndForSharing(base::JobId job, const std::string& detail);
  std::vector<base::ProcessId> StoppedProcessesOf(base::JobId job);
  void SuspendAlsoStopped(SuspendController& suspend_controller, base::JobId job,
                          suspend::event::SuspendAsked asked, SuspendController::Done done);
  void EndStoppedAgain();
  void ResumeContinued();
  void ShowSharing(const jobs::Job& job, api::JobView& view) const;

  void SuspendJob(base::JobId job, const std::string& reason, const std::string& detail,
                  base::Millis return_after);
  std::vector<std::string> MpsVariablesOf(const jobs::Job& job);

  Core& core_;
  LogReaders log_readers_;
  MemoryLimits memory_limits_;
  std::unique_ptr<Notifications> notifications_;
  ContextCosts context_costs_;
  std::unique_ptr<ShimChannel> shims_;  // null: no shim, or no socket for it
  RefusalTeller refusals_;
  std::unique_ptr<SuspendController> suspend_controller_;
  std::set<pid_t> own_pids_;  // gpuman's own on GPUs, as they were asked for last
  std::unique_ptr<HealthMonitors> health_;
  std::unique_ptr<MigManager> mig_;
  bool kernel_log_read_ = false;
  std::unique_ptr<device::Worker> device_worker_;
  std::unique_ptr<Devices> devices_;
  std::set<std::string> away_;  // GPUs that could not be talked to
  JobProfiles job_profiles_;
  metrics::Tally tally_;
  base::TimeBudget scrape_budget_{base::Millis(100), 20};
  std::map<bool, std::string> scraped_;  // the last answers, by with_dcgm
  std::uint64_t scrapes_ = 0;
  double scrape_seconds_ = 0;
  std::unique_ptr<Containers> containers_;
  std::optional<api::ContainerFiles> container_files_;
  std::unique_ptr<MpsManager> mps_;
  std::unique_ptr<Dispatcher> dispatcher_;
  QueueBooks books_;
  BookWriter book_writer_;
  base::WallTime began_;
  std::set<std::string> protected_names_;
  std::unique_ptr<ShareController> share_controller_;  // null: no shims
  // Suspended because their processes were stopped; until when one that was stopped again may not show it
  // yet.
  std::map<base::JobId, base::MonoTime> stopped_off_;
  std::set<base::JobId> taking_off_;  // about to be, with processes that are let run for that
  // Being taken off by force: when it has had time enough, unless its memory still leaves; and why.
  std::map<base::JobId, std::pair<base::MonoTime, std::string>> forced_off_;
  std::map<base::JobId, int> runs_;  // of jobs whose suspension is known: a new run is on its GPU
  base::MonoTime forget_at_{};
  http::Router public_router_;
  std::unique_ptr<http::Server> public_server_;  // over TCP; null: it is not configured
};

}  // namespace gpuman::daemon
