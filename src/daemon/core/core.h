// What the daemon's capabilities stand on: the event loop, the configuration, the store, the event log, the
// jobs, the guard and the sampler, together.
//
//   sampler threads --Sample--> loop: guard, modules --Event--> event log --> store, followers
//   socket --request--> routes of modules --> job manager --> store, keepers
//   keepers --Record--> job events --> modules
//
// The core knows no capability. Each capability joins as a module (core/module.h), and the core tells the
// module what happens. Where the core has to ask a module, the module registers a callback
// (core/callbacks.h).
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/clock.h"
#include "base/fair_task_executor.h"
#include "base/fd.h"
#include "base/sliced_work.h"
#include "base/time_limited_process_table.h"
#include "daemon/config/config.h"
#include "daemon/core/authorization.h"
#include "daemon/core/callbacks.h"
#include "daemon/core/event_log.h"
#include "daemon/core/job_event_forwarder.h"
#include "daemon/core/list_answer_streamer.h"
#include "daemon/core/list_shortening.h"
#include "daemon/core/memory_guard_loop.h"
#include "daemon/core/sample_forwarder.h"
#include "daemon/core/user_names.h"
#include "guard/guard.h"
#include "jobs/job_manager.h"
#include "jobs/store_worker.h"

namespace gpuman::daemon {

class Module;

struct DaemonOptions {
  bool user_mode = false;
  std::filesystem::path keeper_program;
  std::filesystem::path shim_library;  // empty: there is none
  std::filesystem::path mover_program;
  std::filesystem::path notifier_program;
  std::string version;
};

class Core {
 public:
  // Claims the state directory and opens the store. `contents` gets what the store holds, for the modules.
  static base::Result<std::unique_ptr<Core>> Open(boost::asio::io_context& loop, const Config& config,
                                                  DaemonOptions options, jobs::StoreContents& contents);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // --- Life; for the daemon alone ---
  // Modules are added in the order of construction. `module` must live until Stop has returned.
  void Add(Module& module) { modules_.push_back(&module); }
  // Takes over the settings that can change without a restart: all but paths and HTTP limits.
  void Reconfigure(const Config& config);
  // Called after the modules have stopped. Ends sampling, jobs and workers, and writes all that is still to
  // be written. False: a driver call has not returned, and its thread cannot be joined.
  bool Stop();

  const std::vector<Module*>& modules() const { return modules_; }
  Callbacks& callbacks() { return callbacks_; }
  boost::asio::io_context& loop() { return loop_; }
  const Config& config() const { return config_; }
  const DaemonOptions& options() const { return options_; }
  const base::Clock& clock() const { return clock_; }

  // --- Callers and their rights ---
  // Whether this peer has the right. The caller's groups are looked up only when they matter.
  base::Result<> Check(const http::Peer& peer, api::Right right, std::optional<uid_t> owner = {}) const;
  std::string NameOf(uid_t uid) { return names_.Of(uid); }

  // --- Work beside and on the loop ---
  // For work that blocks for a moment. It runs in no order; the work posts its results back to the loop.
  boost::asio::thread_pool& workers() { return workers_; }
  // Does work that would hold up the loop on a thread, one task of each party at a time, in turns
  // (base/fair_task_executor.h). AsideIfRoom fails where as many tasks of the party wait as may; Aside is for
  // what has to be done, such as the answer to a request that has been carried out.
  void Aside(base::Party who, base::FairTaskExecutor::Task task) { aside_tasks_.Add(who, std::move(task)); }
  base::Result<> AsideIfRoom(base::Party who, base::FairTaskExecutor::Task task);
  // On the loop, in turns between parties.
  base::SlicedWork& slices() { return slices_; }
  ListAnswerStreamer& lists() { return lists_; }
  // /proc: one table for the loop, one for threads beside it.
  const base::ProcessTable& processes() const { return table_; }
  const base::ProcessTable& processes_of_threads() const { return table_of_threads_; }

  // --- What is kept and told ---
  jobs::StoreWorker& store() { return *store_; }
  // Reads for a request, on the store's thread, when it is the party's turn. Fails where as many reads of the
  // party wait as may.
  base::Result<> ReadStore(base::Party who, jobs::StoreWorker::UserRead read);
  // Writes entries of the settings table; nullopt: the entry is deleted. `done` gets whether they are on the
  // disk.
  void Keep(jobs::SettingRows entries, std::function<void(base::Result<>)> done);
  EventLog& events() { return *events_; }
  // Adds an event about the job or the GPU. The daemon's log gets it as well.
  void AddJobEvent(const jobs::Job& job, const jobs::JobNotice& notice);
  void AddGpuEvent(const std::string& kind, const std::string& uuid, const std::string& message,
                   std::map<std::string, std::int64_t> data = {});

  // --- Jobs ---
  jobs::JobManager& jobs() { return *job_manager_; }
  const jobs::JobManager& jobs() const { return *job_manager_; }
  std::optional<std::string> TagOf(base::JobId id) const;
  // A module calls this when the way in which jobs are started may have changed (Module::SetUpLaunch).
  void SetUpLaunch();
  // The job is on this GPU from now on. `done` is called when that is stored.
  void ChangeGpu(base::JobId job, const std::string& gpu, const std::function<void(base::Result<>)>& done);
  // The job's memory as the samples show it, with its exact peak where that is known.
  guard::JobUsage UsageOf(base::JobId job) const;
  // The job as it is now, with what each module shows of it.
  api::JobView View(const jobs::Job& job, JobDetail detail = JobDetail::kWhole) const;

  // --- GPUs ---
  MemoryGuardLoop& guard_loop() { return *guard_loop_; }
  guard::Guard& guard() { return guard_loop_->guard(); }
  const guard::Guard& guard() const { return guard_loop_->guard(); }
  SampleForwarder& sampling() { return *sampling_; }
  const SampleForwarder& sampling() const { return *sampling_; }
  const gpu::Inventory& inventory() const { return guard().inventory(); }
  const gpu::Inventory& whole_gpus() const { return sampling_->whole_gpus(); }
  // UUIDs of the GPUs that a job may use when it names none.
  std::vector<std::string> AllGpus() const;
  // Something that samples show has changed: the sampler looks now, not at the next round.
  void SampleNow() { sampling_->sampler().PokeAll(); }
  bool is_ready() const { return sampling_->is_ready(); }
  void WhenReady(std::function<void()> then, std::function<bool()> is_cancelled = {}) {
    sampling_->WhenReady({std::move(then), std::move(is_cancelled)});
  }
  api::GpuView View(const guard::GpuStatus& status);

 private:
  // Threads beside the loop. While one user's long work has one, the other is left for the other users.
  static constexpr std::size_t kAside = 2;

  Core(boost::asio::io_context& loop, const Config& config, DaemonOptions options);
  base::Result<> Begin(jobs::StoreContents& contents);
  void Write(const jobs::Event& event, std::optional<std::int64_t> first_kept);
  jobs::JobManagerOptions JobOptions() const;

  boost::asio::io_context& loop_;
  Config config_;
  const DaemonOptions options_;
  AccessSettings access_;
  base::SystemClock clock_;
  base::TimeLimitedProcessTable table_;
  base::TimeLimitedProcessTable table_of_threads_{"/proc", std::chrono::milliseconds(500),
                                                  base::TimeLimitedProcessTable::For::kThreads};
  UserNames names_{clock_};
  base::Fd claim_;                          // on the state directory
  boost::asio::thread_pool workers_{3};     // two for keepers, one that deletes the files of jobs
  boost::asio::thread_pool aside_{kAside};  // for requests, so that their work does not delay jobs
  base::FairTaskExecutor aside_tasks_;
  base::SlicedWork slices_;
  ListAnswerStreamer lists_{slices_};
  std::vector<Module*> modules_;
  Callbacks callbacks_;
  std::unique_ptr<jobs::StoreWorker> store_;
  std::unique_ptr<EventLog> events_;
  std::unique_ptr<MemoryGuardLoop> guard_loop_;
  JobEventForwarder job_events_;
  std::unique_ptr<jobs::JobManager> job_manager_;
  std::unique_ptr<SampleForwarder> sampling_;
};

}  // namespace gpuman::daemon
