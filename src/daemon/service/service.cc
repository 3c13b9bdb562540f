#include "daemon/service/service.h"
#include "daemon/containers/containers.h"
#include "daemon/sharing/share_controller.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/file.h"
#include "base/heap.h"
#include "daemon/config/guard_settings.h"
#include "daemon/health/views.h"
#include "daemon/listen.h"
#include "daemon/notify/notifications.h"
#include "daemon/routes/routes.h"
#include "daemon/shims/ledger_limits.h"
#include "daemon/suspension/suspension_views.h"
#include "daemon/systemd_notify.h"
#include "daemon/views.h"
#include "keeper/host_limits.h"

namespace gpuman::daemon {
namespace {

constexpr std::size_t kEventsInMemory = 10'000;
constexpr std::chrono::seconds kTrimEvery{30};
constexpr std::size_t kBodiesOfASubmission = 8;   // times http.max_body
constexpr std::size_t kBodiesOfUser = 16u << 20;  // read or answered at a time, in bytes
constexpr std::size_t kBodiesOfAll = 128u << 20;
constexpr base::Millis kMemoryPatience{1000};    // with a kernel that takes memory from a job, at the end
constexpr std::chrono::seconds kReadyAtLast{8};  // loading a driver that sleeps takes some seconds

// A cgroup that does not limit has no such file; the job's notes say so.
void WriteMemoryLimit(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit) {
  (void)keeper::LimitMemory(cgroup, limit).has_value();
}

SuspendControllerSettings SuspenderSettingsOf(const Config& config) {
  SuspendControllerSettings settings;
  settings.machine.lock_timeout = config.suspend.patience;
  settings.host_memory = config.suspend.host_memory;
  return settings;
}

EventLog::Settings EventSettingsOf(const Config& config) {
  return {kEventsInMemory, config.events.keep_count, config.events.keep};
}

Access AccessOf(const Config& config, bool user_mode) {
  if (user_mode) return {{config.access.admin_group}, {config.access.submit_group}, ::getuid()};
  return {LookUpGroup(config.access.admin_group), LookUpGroup(config.access.submit_group), std::nullopt};
}

}  // namespace

base::Result<std::unique_ptr<Service>> Service::Start(boost::asio::io_context& loop, const Config& config,
                                                      ServiceOptions options) {
  std::unique_ptr<Service> service(new Service(loop, config, std::move(options)));
  GPUMAN_TRY(service->Begin());
  return service;
}

Service::Service(boost::asio::io_context& loop, const Config& config, ServiceOptions options)
    : loop_(loop),
      config_(config),
      options_(std::move(options)),
      access_(AccessOf(config, options_.user_mode)),
      log_readers_(loop),
      memory_limits_(WriteMemoryLimit),
      aside_tasks_([this](std::function<void()> act) { boost::asio::post(aside_, std::move(act)); },
                   [&loop](std::function<void()> act) { boost::asio::post(loop, std::move(act)); },
                   {.of_all = kAside}),
      slices_([&loop](std::function<void()> act) { boost::asio::post(loop, std::move(act)); }, clock_),
      book_writer_(
          books_,
          [this](jobs::SettingRows entries, BookWriter::Done done) {
            WriteBooks(std::move(entries), std::move(done));
          },
          [this] { TellQueueBooks(); }),
      tick_(loop),
      guard_timer_(loop),
      ready_timer_(loop) {}

Service::~Service() { Stop(); }

void Service::Stop() {
  if (std::exchange(stopped_, true)) return;
  public_server_.reset();
  server_.reset();
  mps_.reset();
  dispatcher_.reset();
  share_controller_.reset();
  suspend_controller_.reset();
  shims_.reset();
  if (sampler_) sampler_->Stop();
  if (device_worker_ && !device_worker_->Stop(config_.sampling.call_limit)) left_a_thread_ = true;
  if (!memory_limits_.Stop(kMemoryPatience)) left_a_thread_ = true;
  if (mig_) mig_->Stop();
  job_manager_.reset();
  notifications_.reset();
  workers_.join();
  aside_.join();
  store_.reset();
}

jobs::JobManagerOptions Service::JobManagerOptionsOf(const Config& config) const {
  jobs::JobManagerOptions options;
  options.keeper_program = options_.keeper_program;
  options.jobs_dir = config.state_dir / "jobs";
  options.launch.log_dir = config.state_dir / "logs";
  // The service's own protection from the kernel's out-of-memory killer is not for other people's programs.
  if (!options_.user_mode) options.launch.oom_score_adj = 0;
  options.launch.stop_grace = config.jobs.stop_grace;
  options.launch.log_size = config.jobs.log_size;
  options.launch.log_files = config.jobs.log_rotations;
  options.launch.restart.initial_delay = config.restart.initial_delay;
  options.launch.restart.max_delay = config.restart.max_delay;
  if (config.restart.max_restarts > 0) options.launch.restart.max_restarts = config.restart.max_restarts;
  if (shims_ && config.shim.preload) {
    options.launch.shim = options_.shim_library;
    options.launch.shim_socket = ShimSocket();
  }
  if (config.share.memory != share::Memory::kAuto)
    options.launch.shared_memory = ToString(config.share.memory);
  options.keep_ended = config.jobs.keep_ended_count;
  options.keep_ended_for = config.jobs.keep_ended;
  options.running_of_user = config.jobs.running_jobs;
  options.text_of_user = config.jobs.text;
  return options;
}

// shim.sock beside gpumand.sock; beside a socket of another name, one that nobody else has.
std::filesystem::path Service::ShimSocket() const {
  const auto name = config_.socket.filename();
  return config_.socket.parent_path() / (name == "gpumand.sock" ? "shim.sock" : name.string() + ".shim");
}

base::Result<> Service::Begin() {
  GPUMAN_TRY(base::MakeDirectories(config_.state_dir, options_.user_mode ? 0700 : 0755));
  GPUMAN_ASSIGN(claim_, ClaimDirectory(config_.state_dir));
  GPUMAN_TRY(base::MakeDirectories(config_.state_dir / "jobs", 0711));
  GPUMAN_TRY(base::MakeDirectories(config_.state_dir / "logs", 0755));
  GPUMAN_ASSIGN(auto store, jobs::Store::Open(config_.state_dir / "gpuman.db"));
  GPUMAN_ASSIGN(auto contents, store->Load(kEventsInMemory));
  store_ = std::make_unique<jobs::StoreWorker>(
      std::move(store), [this](std::function<void()> act) { boost::asio::post(loop_, std::move(act)); });

  BeginNotifications();
  events_ = std::make_unique<EventLog>(
      EventSettingsOf(config_), std::move(contents.events), contents.last_event_id,
      [this](const jobs::Event& event, std::optional<std::int64_t> first_kept) {
        jobs::Batch batch;
        batch.events.push_back(event);
        batch.first_event_kept = first_kept;
        auto messages = notifications_->About(event);
        batch.outbox = messages;
        store_->Submit(std::move(batch), [this, messages = std::move(messages)](base::Result<> written) {
          if (!written) spdlog::warn("an event could not be stored: {}", written.error().message);
          // What the disk does not take is told all the same.
          if (!messages.empty()) notifications_->OnStored(messages);
        });
      });
  BeginMetrics();
  GPUMAN_ASSIGN(auto listener,
                Listen({config_.socket, static_cast<mode_t>(options_.user_mode ? 0600 : 0666), {}}));
  guard::Actuator& actuator = *this;
  jobs::JobManagerHost& host = *this;
  guard_ = std::make_unique<guard::Guard>(
      GuardSettingsOf(config_), table_, actuator, clock_,
      [this](const std::string& uuid, base::Millis period) { sampler_->SetPeriod(uuid, period); });
  RecallContexts();
  if (!options_.shim_library.empty()) {
    auto channel = ShimChannel::Open(
        loop_, ShimSocket(), options_.user_mode ? 0600 : 0666, table_,
        [this](const ledger::Caller& caller) { return JobOfShim(caller); },
        [this](base::JobId job, const ledger::Caller& caller, std::uint32_t version) {
          TellOtherShim(job, caller.process, version);
        });
    if (!channel) spdlog::warn("jobs get no shim: {}", channel.error().message);
    if (channel) shims_ = std::move(*channel);
  }
  SuspendControllerHost& suspender_host = *this;
  suspend::CheckpointerOptions checkpointer;
  checkpointer.program = {options_.mover_program, config_.state_dir};
  suspend_controller_ = std::make_unique<SuspendController>(
      loop_, workers_, clock_, suspender_host, SuspenderSettingsOf(config_), std::move(checkpointer));
  job_manager_ = std::make_unique<jobs::JobManager>(loop_, workers_, *store_, clock_, table_of_threads_, host,
                                                    JobManagerOptionsOf(config_));
  BeginContainers();
  BeginSharing();
  BeginQueue(contents.settings);
  BeginDevices(contents.settings);
  BeginSampling();
  notifications_->Begin(std::exchange(contents.outbox, {}), contents.last_outbox_number);
  BeginMig(contents.settings);
  BeginHealth(contents.settings);  // a reboot ends faults, which is told
  BeginMps(contents.settings);
  job_manager_->Adopt(std::move(contents));

  AddAllRoutes(router_, *this);
  http::Limits limits;
  limits.body_bytes = config_.http.max_body.count;
  limits.bodies_of_user = std::max(limits.body_bytes, kBodiesOfUser);
  limits.bodies_of_all = std::max(4 * limits.body_bytes, kBodiesOfAll);
  limits.large_path = "/v1/submissions";
  limits.large_body_bytes = kBodiesOfASubmission * limits.body_bytes;
  limits.goes_first = [this](const http::Peer& peer) { return Check(peer, Act::kManage).has_value(); };
  limits.connections = config_.http.connections;
  limits.request = config_.http.request_timeout;
  limits.idle = config_.http.idle_timeout;
  server_ =
      std::make_unique<http::Server>(loop_, std::move(listener), limits,
                                     [this](const http::ExchangePtr& exchange) { router_.Route(exchange); });
  ServeMetrics();
  Tick();
  return {};
}

void Service::BeginSampling() {
  gpu::SamplerCallbacks callbacks;
  callbacks.on_inventory = [this](gpu::Inventory inventory) {
    boost::asio::post(loop_, [this, inventory = std::move(inventory)] {
      if (inventory.gpus.empty())
        spdlog::warn("no GPUs: {}", inventory.problem);
      else
        spdlog::info("{} GPUs and MIG instances, driver {}", inventory.gpus.size(), inventory.driver_version);
      whole_gpus_ = gpu::WithoutInstances(inventory);
      guard_->SetInventory(inventory);
      health_->OnInventory(whole_gpus_);
      devices_->OnInventory(whole_gpus_);
      mig_->OnInventory();
      ReadKernelLog();
      ExpectContexts();
      for (const auto* job : job_manager_->Active()) SetLedger(*job);
      dispatcher_->OnInventory();
      AfterGuard();
      if (AllSampled()) BecomeReady();
    });
  };
  callbacks.on_sample = [this](gpu::Sample sample) {
    boost::asio::post(loop_, [this, sample = std::move(sample)] { OnSample(sample); });
  };
  callbacks.on_xid = [this](const gpu::XidSeen& seen) {
    boost::asio::post(loop_, [this, seen] {
      tally_.OnXid(seen.uuid, seen.xid);
      health_->OnXid(seen.uuid, seen.xid);
    });
  };
  sampler_ = std::make_unique<gpu::Sampler>(SamplerSettingsOf(config_), std::move(callbacks));
  sampler_->Start();
  ready_timer_.expires_after(kReadyAtLast);
  ready_timer_.async_wait([this](boost::system::error_code error) {
    if (!error) BecomeReady();
  });
}

void Service::OnSample(const gpu::Sample& sample) {
  if (shims_) guard_->SetManaged(sample.uuid, shims_->ManagedOn(sample.uuid));
  guard_->SetOurs(OwnPids());
  guard_->OnSample(sample);
  if (!gpu::IsInstance(sample.uuid)) {
    health_->OnSample(sample);
    FollowAway(sample);
  }
  if (const auto* status = guard_->Find(sample.uuid)) {
    LookForContainers(*status);
    LookAtLedgers(*status);
  }
  // The GPUs are read at one moment. What looks at all of them looks once, behind those that have come.
  if (sampled_.empty()) boost::asio::post(loop_, [this] { AfterSamples(); });
  sampled_.insert(sample.uuid);
}

void Service::AfterSamples() {
  guard_->Judge();
  suspend_controller_->OnSample();
  if (share_controller_) share_controller_->OnSample();
  EndStoppedAgain();
  ResumeContinued();
  for (const auto& uuid : std::exchange(sampled_, {})) dispatcher_->OnSample(uuid);
  AfterGuard();
  if (!ready_ && AllSampled()) BecomeReady();
}

bool Service::AllSampled() const {
  const auto& gpus = guard_->inventory().gpus;
  return mig_->has_looked() && std::all_of(gpus.begin(), gpus.end(), [&](const gpu::Gpu& gpu) {
           const auto* status = guard_->Find(gpu.uuid);
           return status && status->sample.taken_at != base::MonoTime{};
         });
}

void Service::BecomeReady() {
  if (ready_) return;
  ready_ = true;
  ready_timer_.cancel();
  if (shims_) shims_->AskAgain();
  ChargePast();
  dispatcher_->Begin();
  for (const auto& then : std::exchange(when_ready_, {})) then();
}

void Service::WhenReady(std::function<void()> then) {
  if (ready_) return then();
  when_ready_.push_back(std::move(then));
}

void Service::Aside(uid_t user, base::FairQueue::Task task) { aside_tasks_.Add(user, std::move(task)); }

void Service::Tick() {
  sampler_->CheckWatchdog();
  auto period = std::chrono::duration_cast<std::chrono::microseconds>(config_.sampling.call_limit / 2);
  if (const auto watchdog = WatchdogPeriod()) {
    NotifyAlive();
    period = std::min(period, *watchdog / 3);
  }
  FollowJobProfiles();
  devices_->OnTime();
  ForgetOldAccounts();
  if (const auto now = clock_.Mono(); now >= trim_at_) {
    base::ReturnFreeMemory();
    trim_at_ = now + kTrimEvery;
  }
  tick_.expires_after(period);
  tick_.async_wait([this](boost::system::error_code error) {
    if (!error) Tick();
  });
}

void Service::AfterGuard() {
  const auto deadline = guard_->NextDeadline();
  if (!deadline) {
    guard_timer_.cancel();
    return;
  }
  guard_timer_.expires_at(*deadline);
  guard_timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    guard_->OnTime();
    AfterGuard();
  });
}

void Service::Reconfigure(const Config& config) {
  const auto socket = config_.socket;
  const auto state_dir = config_.state_dir;
  config_ = config;
  config_.socket = socket;
  config_.state_dir = state_dir;
  access_ = AccessOf(config_, options_.user_mode);
  guard_->SetSettings(GuardSettingsOf(config_));
  job_manager_->SetOptions(JobManagerOptionsOf(config_));
  events_->SetSettings(EventSettingsOf(config_));
  notifications_->SetSettings(config_.notify);
  suspend_controller_->SetSettings(SuspenderSettingsOf(config_));
  health_->SetSettings(config_.health.monitor);
  SetUpDevices();
  mig_->SetPeriod(config_.mig.check);
  mps_->SetSettings(config_.mps);
  if (share_controller_) share_controller_->SetSettings(config_.share);
  for (const auto* job : job_manager_->Active()) SetLedger(*job);
  TellQueueBooks();
  AfterGuard();
  LookNow();
}

base::Result<> Service::Check(const http::Peer& peer, Act act, std::optional<uid_t> owner) const {
  const bool groups_matter = peer.uid != 0 && !access_.only_user && act != Act::kSee && owner != peer.uid;
  // A refusal says the name.
  const bool name_matters = access_.only_user && peer.uid != 0 && peer.uid != *access_.only_user;
  const Caller caller =
      groups_matter ? CallerOf(peer) : Caller{peer.uid, peer.gid, {}, name_matters ? UserName(peer.uid) : ""};
  return Authorize(access_, caller, act, owner);
}

std::optional<std::string> Service::TagOf(base::JobId id) const {
  const auto* job = job_manager_ ? job_manager_->Find(id) : nullptr;
  return job ? std::optional(job->tag) : std::nullopt;
}

api::JobView Service::View(const jobs::Job& job) const {
  api::JobView view =
      JobViewOf(job, guard_->UsageOf(job.id), guard_->inventory(), job_manager_->LogPathOf(job.id));
  if (const auto* record = suspend_controller_->RecordOf(job.id)) ShowSuspension(*record, view);
  ShowSharing(job, view);
  if (shims_ && shims_->Has(job.id) && (job.memory || job.soft)) {
    view.unshimmed = UnshimmedOf(job.id, guard_->Statuses(), [this](base::JobId id, base::ProcessId process) {
      return shims_->Counts(id, process);
    });
  }
  if (!jobs::IsEnded(job) && !jobs::IsWaiting(job))
    if (auto tight = TightLimitOf(job)) view.notes.push_back(std::move(*tight));
  if (const auto refusal = RefusalOf(job)) view.refusal = ViewOf(job, *refusal, guard_->inventory());
  if (!job.device_profile.empty()) {
    view.device_profile = job.device_profile;
    for (auto& note : job_profiles_.NotesOf(job.id)) view.notes.push_back(std::move(note));
  }
  return view;
}

api::GpuView Service::View(const guard::GpuStatus& status) {
  return GpuViewOf(
      status,
      HealthViewOf(health_->Find(status.gpu.mig ? status.gpu.mig->parent : status.gpu.uuid), status.sample),
      table_, [this](uid_t uid) { return names_.Of(uid); }, [this](base::JobId id) { return TagOf(id); });
}

void Service::StopWatching(base::JobId job) {
  // Of most of 100,000 jobs nothing ever ran.
  if (!runs_.contains(job)) return;
  stopping_since_.erase(job);
  runs_.erase(job);
  job_profiles_.Forget(job);
  suspend_controller_->End(job);
  if (shims_) shims_->RemoveJob(job);
  guard_->RemoveJob(job);
  if (share_controller_) share_controller_->Reconcile();
  AfterGuard();
}

void Service::OnJobChanged(const jobs::Job& job, const jobs::Runtime& runtime) {
  dispatcher_->OnJobChanged(job);
  if (jobs::IsEnded(job) || jobs::IsWaiting(job) || !job.keeper) return StopWatching(job.id);
  guard::GuardedJob guarded;
  guarded.id = job.id;
  guarded.tag = job.tag;
  guarded.run = static_cast<std::uint64_t>(job.runs) + (static_cast<std::uint64_t>(job.incarnation) << 32);
  guarded.started_at = runtime.run_started;
  guarded.priority = job.priority;
  guarded.shares = job.share && !job.mps && job.preload && shims_;
  guarded.hard = job.memory;
  guarded.soft = job.soft;
  guarded.gpus = job.gpus;
  guarded.grace = job.grace;
  if (job.state == jobs::JobState::kStopping)
    guarded.ending_since = stopping_since_.try_emplace(job.id, clock_.Mono()).first->second;
  else
    stopping_since_.erase(job.id);
  guarded.root = {job.id, *job.keeper, job.cgroup, job.owner->uid, runtime.key, {}};
  if (job.container) guarded.root = {job.id, {}, {}, job.owner->uid, {}, job.container->id};
  guard_->SetJob(guarded);
  SetLedger(job);
  const auto [run, fresh] = runs_.try_emplace(job.id, job.runs);
  if (job.state == jobs::JobState::kStopping || run->second != job.runs)
    suspend_controller_->End(job.id);
  else
    suspend_controller_->Begin(job.id, job.suspension);
  run->second = job.runs;
  if (share_controller_) share_controller_->Reconcile();
  AfterGuard();
}

void Service::OnJobForgotten(base::JobId job) {
  dispatcher_->OnJobForgotten(job);
  refusals_.Forget(job);
  if (!runs_.contains(job)) return;
  stopping_since_.erase(job);
  runs_.erase(job);
  job_profiles_.Forget(job);
  suspend_controller_->End(job);
  released_.insert(job);
  if (share_controller_) share_controller_->Reconcile();  // its gate is opened
  released_.erase(job);
  if (shims_) shims_->ReleaseJob(job);
  guard_->RemoveJob(job);
  AfterGuard();
}

void Service::OnNotice(const jobs::Job& job, const jobs::Notice& notice) {
  spdlog::info("job {} ({}): {}: {}", job.id.value, job.tag, notice.kind, notice.message);
  jobs::Event event;
  event.at = clock_.Wall();
  event.kind = notice.kind;
  event.job = job.id.value;
  event.tag = job.tag;
  event.message = notice.message;
  event.data = notice.data;
  events_->Add(std::move(event));
}

void Service::OnTrouble(const jobs::Job& job, const std::string& what) {
  spdlog::warn("job {} ({}): {}", job.id.value, job.tag, what);
}

std::optional<base::Bytes> Service::PeakOf(base::JobId job) { return guard_->UsageOf(job).peak; }

std::vector<std::string> Service::AllGpus() {
  std::vector<std::string> uuids;
  for (const auto& gpu : gpu::VisibleByDefault(guard_->inventory().gpus)) uuids.push_back(gpu.uuid);
  return uuids;
}

std::map<std::string, unsigned> Service::GpuIndices() {
  std::map<std::string, unsigned> indices;
  for (const auto& gpu : guard_->inventory().gpus) {
    if (gpu.mig || gpu.split) return {};  // which of them CUDA counts depends on the program
    indices.emplace(gpu.uuid, gpu.index);
  }
  return indices;
}

void Service::Announce(base::JobId job, const std::string& reason, const std::string& detail) {
  job_manager_->Announce(job, {reason, detail});
}

base::Result<> Service::SignalJob(base::JobId job, int signal, std::function<void(const guard::Sent&)> sent) {
  return job_manager_->Signal(job, signal, [sent = std::move(sent)](const jobs::SignalSent& done) {
    sent({done.processes, done.at});
  });
}

base::Result<> Service::SignalProcess(base::ProcessId process, int signal) {
  return base::SendSignal(process, signal);
}

void Service::Note(base::JobId job, const std::string& line) { job_manager_->Note(job, line); }

void Service::Emit(guard::Event event) {
  spdlog::warn("{}: {}", event.kind, event.message);
  events_->Add(StoredEvent(event, clock_.Wall(), [this](base::JobId id) { return TagOf(id); }));
}

}  // namespace gpuman::daemon
