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
#include "daemon/http/router.h"
#include "daemon/http/server.h"
#include "daemon/log_readers.h"
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

class DeviceModule;
class HealthModule;
class MigModule;
class MpsModule;
class NotifyModule;
class ShimsModule;
class SuspensionModule;

class Service final : public Module, private DispatcherHost {
 public:
  Service(Core& core, NotifyModule& notify, ShimsModule& shims, SuspensionModule& suspension,
          DeviceModule& device, MpsModule& mps, MigModule& mig, HealthModule& health);
  ~Service() override;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void Restore(jobs::StoreContents& contents) override;
  void AddRoutes(http::Router& router) override;
  void Reconfigure() override;
  void OnReady() override;
  void OnTick() override;
  bool Stop() override;
  void OnInventory() override;
  void AfterSamples(const std::set<std::string>& gpus) override;
  void OnJobChanged(const jobs::Job& job) override;
  void OnJobForgotten(base::JobId job) override;
  void OnRunEnded(const jobs::Job& job, const jobs::RunAccount& run) override;

  // --- For the routes ---
  Core& core() { return core_; }
  const NotifyModule& notify() const { return notify_; }
  const ShimsModule& shims() const { return shims_; }
  SuspensionModule& suspension() { return suspension_; }
  LogReaders& log_readers() { return log_readers_; }
  DeviceModule& device() { return device_; }
  MpsModule& mps() { return mps_; }
  // For Prometheus; without what is there for dcgm-exporter's dashboards unless `with_dcgm`. Where it is
  // asked for more often than there is time for, the answer is the last one.
  std::string MetricsText(bool with_dcgm);
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
  // metrics.cc
  void BeginMetrics();
  void ServeMetrics();
  metrics::Device MetricsOf(const guard::GpuStatus& status);
  metrics::Job MetricsOf(const jobs::Job& job);
  metrics::Queue QueueMetrics() const;

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

  Core& core_;
  NotifyModule& notify_;
  ShimsModule& shims_;
  SuspensionModule& suspension_;
  DeviceModule& device_;
  MpsModule& mps_;
  HealthModule& health_;
  LogReaders log_readers_;
  metrics::Tally tally_;
  base::TimeBudget scrape_budget_{base::Millis(100), 20};
  std::map<bool, std::string> scraped_;  // the last answers, by with_dcgm
  std::uint64_t scrapes_ = 0;
  double scrape_seconds_ = 0;
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
