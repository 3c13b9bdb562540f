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

#include "api/types.h"
#include "base/clock.h"
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
#include "gpu/sampler.h"
#include "guard/guard.h"
#include "jobs/job_manager.h"
#include "jobs/store_worker.h"
#include "metrics/snapshot.h"

namespace gpuman::daemon {

class NotifyModule;
class ShimsModule;
class SuspensionModule;
struct MigDivision;
struct OwnProcesses;
struct MpsContext;

class Service final : public Module,
                      private DispatcherHost,
                      private HealthHost,
                      private DeviceHost,
                      private MigHost,
                      private MpsHost {
 public:
  Service(Core& core, NotifyModule& notify, ShimsModule& shims, SuspensionModule& suspension);
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
  void OnSample(const gpu::Sample& sample) override;
  void AfterSamples(const std::set<std::string>& gpus) override;
  void OnJobChanged(const jobs::Job& job) override;
  void OnJobLeft(base::JobId job, Left why) override;
  void OnJobForgotten(base::JobId job) override;
  void OnRunEnded(const jobs::Job& job, const jobs::RunAccount& run) override;
  void Show(const jobs::Job& job, api::JobView& view) const override;
  void Show(const guard::GpuStatus& status, api::GpuView& view) const override;

  // --- For the routes ---
  Core& core() { return core_; }
  const NotifyModule& notify() const { return notify_; }
  const ShimsModule& shims() const { return shims_; }
  SuspensionModule& suspension() { return suspension_; }
  LogReaders& log_readers() { return log_readers_; }
  HealthMonitors& health() { return *health_; }
  Devices& devices() { return *devices_; }
  void TellDeviceChange(const DeviceReport& report, const std::string& by);
  // For Prometheus; without what is there for dcgm-exporter's dashboards unless `with_dcgm`. Where it is
  // asked for more often than there is time for, the answer is the last one.
  std::string MetricsText(bool with_dcgm);
  MigManager& mig() { return *mig_; }
  MigHolders MigHoldersNow() const;
  OwnProcesses OwnProcessesNow();
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
  // With what the queue says of it, at the price of a view of the queue (Dispatcher::IsViewCheap).
  api::JobView ViewWithQueue(const jobs::Job& job);
  // The same by a snapshot that there is. In full: with what a waiting job is in front by.
  api::JobView ViewBy(const QueueSnapshot& snapshot, const jobs::Job& job, bool in_full);

 private:
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
  metrics::Queue QueueMetrics() const;
  // MigHost
  void KeepMig(jobs::SettingRows entries, std::function<void(base::Result<>)> done) override;
  void TellMig(const gpu::Gpu& gpu, const char* kind, const std::string& text) override;
  const gpu::Inventory& GpusToSplit() override { return core_.whole_gpus(); }
  void OnSplit() override;
  void BeginMig(const jobs::SettingRows& settings);

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
  const std::map<std::string, guard::GpuStatus>& GpuStatuses() override { return core_.guard().Statuses(); }
  base::Bytes ReserveOf(const std::string& gpu) override { return core_.guard().ReserveOf(gpu); }
  void BeginQueue(const jobs::SettingRows& settings);
  void TellQueueBooks();
  void ChargePast();
  void ForgetOldAccounts();

  std::vector<std::string> MpsVariablesOf(const jobs::Job& job);

  Core& core_;
  NotifyModule& notify_;
  ShimsModule& shims_;
  SuspensionModule& suspension_;
  LogReaders log_readers_;
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
  std::unique_ptr<MpsManager> mps_;
  std::unique_ptr<Dispatcher> dispatcher_;
  QueueBooks books_;
  BookWriter book_writer_;
  base::WallTime began_;
  std::set<std::string> protected_names_;
  base::MonoTime forget_at_{};
  http::Router public_router_;
  std::unique_ptr<http::Server> public_server_;  // over TCP; null: it is not configured
};

}  // namespace gpuman::daemon
