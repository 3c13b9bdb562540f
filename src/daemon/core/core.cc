#include "daemon/core/core.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "daemon/core/listen.h"
#include "daemon/core/module.h"
#include "daemon/core/views.h"

namespace gpuman::daemon {
namespace {

constexpr std::size_t kEventsInMemory = 10'000;
// More than a user asks for at a time; with bodies that are small and so have no other bound: 16 MiB.
constexpr std::size_t kTasksOfUser = 256;

base::Result<> IfTaken(bool taken) {
  if (taken) return {};
  return base::Fail(base::ErrorCode::kUnavailable,
                    fmt::format("{} of your requests wait for their turn already", kTasksOfUser),
                    "wait for their answers, and try again");
}

EventLogSettings EventSettingsOf(const Config& config) {
  return {kEventsInMemory, config.events.keep_count, config.events.keep};
}

AccessSettings AccessOf(const Config& config, bool user_mode) {
  if (user_mode) return {{config.access.admin_group}, {config.access.submit_group}, ::getuid()};
  return {LookUpGroup(config.access.admin_group), LookUpGroup(config.access.submit_group), std::nullopt};
}

// Traces belong to users, who could fill the disk with them.
std::filesystem::path TraceDirectory(const std::filesystem::path& state_dir, bool user_mode) {
  if (user_mode) return state_dir / "traces";
  if (state_dir == "/var/lib/gpuman") return "/var/tmp/gpuman-traces";
  return fmt::format("/var/tmp/gpuman-traces-{:016x}", base::Fnv1a(state_dir.string()));
}

}  // namespace

base::Result<std::unique_ptr<Core>> Core::Open(boost::asio::io_context& loop, const Config& config,
                                               DaemonOptions options, jobs::StoreContents& contents) {
  std::unique_ptr<Core> core(new Core(loop, config, std::move(options)));
  GPUMAN_TRY(core->Begin(contents));
  return core;
}

Core::Core(boost::asio::io_context& loop, const Config& config, DaemonOptions options)
    : loop_(loop),
      config_(config),
      options_(std::move(options)),
      access_(AccessOf(config, options_.user_mode)),
      aside_tasks_([this](std::function<void()> act) { boost::asio::post(aside_, std::move(act)); },
                   [&loop](std::function<void()> act) { boost::asio::post(loop, std::move(act)); },
                   {.of_all = kAside, .waiting_of_user = kTasksOfUser}),
      slices_([&loop](std::function<void()> act) { boost::asio::post(loop, std::move(act)); }, clock_),
      job_events_(*this, config.health.kernel_log) {}

Core::~Core() = default;

base::Result<> Core::Begin(jobs::StoreContents& contents) {
  GPUMAN_TRY(base::MakeDirectories(config_.state_dir, options_.user_mode ? 0700 : 0755));
  GPUMAN_ASSIGN(claim_, ClaimDirectory(config_.state_dir));
  GPUMAN_TRY(base::MakeDirectories(config_.state_dir / "jobs", 0711));
  GPUMAN_TRY(base::MakeDirectories(config_.state_dir / "logs", 0755));
  GPUMAN_ASSIGN(auto store, jobs::Store::Open(config_.state_dir / "gpuman.db"));
  GPUMAN_ASSIGN(contents, store->Load(kEventsInMemory));
  store_ = std::make_unique<jobs::StoreWorker>(
      std::move(store), [this](std::function<void()> act) { boost::asio::post(loop_, std::move(act)); },
      kTasksOfUser);
  events_ = std::make_unique<EventLog>(
      EventSettingsOf(config_), std::move(contents.events), contents.last_event_id,
      [this](const jobs::Event& event, std::optional<std::int64_t> first_kept) { Write(event, first_kept); });
  guard_loop_ = std::make_unique<MemoryGuardLoop>(*this);
  job_manager_ =
      std::make_unique<jobs::JobManager>(loop_, workers_, *store_, clock_, table_of_threads_, JobOptions());
  job_events_.Register(job_manager_->callbacks());
  sampling_ = std::make_unique<SampleForwarder>(*this);
  return {};
}

void Core::Reconfigure(const Config& config) {
  const auto socket = config_.socket;
  const auto state_dir = config_.state_dir;
  config_ = config;
  config_.socket = socket;
  config_.state_dir = state_dir;
  access_ = AccessOf(config_, options_.user_mode);
  guard_loop_->Reconfigure();
  events_->SetSettings(EventSettingsOf(config_));
  for (auto* const module : modules_) module->Reconfigure();
  SetUpLaunch();
  guard_loop_->Rearm();
  SampleNow();
}

bool Core::Stop() {
  sampling_->Stop();
  job_manager_.reset();
  workers_.join();
  aside_.join();
  store_.reset();
  return !sampling_->sampler().left_a_thread();
}

base::Result<> Core::AsideIfRoom(base::Party who, base::FairTaskExecutor::Task task) {
  return IfTaken(aside_tasks_.AddIfRoom(who, std::move(task)));
}

base::Result<> Core::ReadStore(base::Party who, jobs::StoreWorker::UserRead read) {
  return IfTaken(store_->ReadForUser(who, std::move(read)));
}

void Core::Write(const jobs::Event& event, std::optional<std::int64_t> first_kept) {
  jobs::Batch batch;
  batch.events.push_back(event);
  batch.first_event_kept = first_kept;
  auto messages = callbacks_.messages_about_event(event);
  batch.outbox = messages;
  store_->Submit(std::move(batch), [this, messages = std::move(messages)](base::Result<> written) {
    if (!written) spdlog::warn("an event could not be stored: {}", written.error().message);
    // Messages are sent even if the disk did not take them.
    if (!messages.empty()) callbacks_.on_messages_stored(messages);
  });
}

jobs::JobManagerOptions Core::JobOptions() const {
  jobs::JobManagerOptions options;
  options.keeper_program = options_.keeper_program;
  options.jobs_dir = config_.state_dir / "jobs";
  options.launch.log_dir = config_.state_dir / "logs";
  options.launch.trace_dir = TraceDirectory(config_.state_dir, options_.user_mode);
  // The service is protected from the kernel's out-of-memory killer; the users' programs must not inherit
  // that.
  if (!options_.user_mode) options.launch.oom_score_adj = 0;
  options.launch.stop_grace = config_.jobs.stop_grace;
  options.launch.log_size = config_.jobs.log_size;
  options.launch.log_files = config_.jobs.log_rotations;
  options.launch.restart.initial_delay = config_.restart.initial_delay;
  options.launch.restart.max_delay = config_.restart.max_delay;
  if (config_.restart.max_restarts > 0) options.launch.restart.max_restarts = config_.restart.max_restarts;
  for (const auto* const module : modules_) module->SetUpLaunch(options.launch);
  options.keep_ended = config_.jobs.keep_ended_count;
  options.keep_ended_for = config_.jobs.keep_ended;
  options.of_user.running = config_.jobs.running_jobs;
  options.of_user.text = config_.jobs.text;
  return options;
}

void Core::SetUpLaunch() { job_manager_->SetOptions(JobOptions()); }

base::Result<> Core::Check(const http::Peer& peer, api::Right right, std::optional<uid_t> owner) const {
  const bool for_all =
      right == api::Right::kAnybody || right == api::Right::kSee || right == api::Right::kByRequest;
  const bool groups_matter = peer.uid != 0 && !access_.only_user && !for_all && owner != peer.uid;
  // The text of a refusal has the user's name.
  const bool name_matters = access_.only_user && peer.uid != 0 && peer.uid != *access_.only_user;
  const Caller caller = peer.over_tcp ? Caller{peer.uid, peer.gid, {}, {}, true}
                        : groups_matter
                            ? CallerOf(peer)
                            : Caller{peer.uid, peer.gid, {}, name_matters ? UserName(peer.uid) : ""};
  return Authorize(access_, caller, right, owner);
}

void Core::Keep(jobs::SettingRows entries, std::function<void(base::Result<>)> done) {
  jobs::Batch batch;
  batch.settings = std::move(entries);
  store_->Submit(std::move(batch), std::move(done));
}

void Core::AddJobEvent(const jobs::Job& job, const jobs::JobNotice& notice) {
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

void Core::AddGpuEvent(const std::string& kind, const std::string& uuid, const std::string& message,
                       std::map<std::string, std::int64_t> data) {
  spdlog::info("{}: {}", kind, message);
  jobs::Event event;
  event.at = clock_.Wall();
  event.kind = kind;
  event.gpu = uuid;
  event.message = message;
  event.data = std::move(data);
  events_->Add(std::move(event));
}

std::optional<std::string> Core::TagOf(base::JobId id) const {
  const auto* job = job_manager_ ? job_manager_->Find(id) : nullptr;
  return job ? std::optional(job->tag) : std::nullopt;
}

void Core::ChangeGpu(base::JobId id, const std::string& gpu,
                     const std::function<void(base::Result<>)>& done) {
  const auto* const job = job_manager_->Find(id);
  if (job && job->gpus == std::vector{gpu}) return done({});
  const auto change = [&](jobs::Job& stored) { stored.gpus = {gpu}; };
  job_manager_->Update(id, change, [done](const base::Result<jobs::Job>&) { done({}); });
}

std::vector<std::string> Core::AllGpus() const {
  std::vector<std::string> uuids;
  for (const auto& gpu : gpu::VisibleByDefault(inventory().gpus)) uuids.push_back(gpu.uuid);
  return uuids;
}

guard::JobUsage Core::UsageOf(base::JobId job) const {
  guard::JobUsage usage = guard().UsageOf(job);
  if (const auto peak = callbacks_.exact_peak(job)) usage.peak = peak;
  return usage;
}

api::JobView Core::View(const jobs::Job& job, JobDetail detail) const {
  api::JobView view = JobViewOf(job, UsageOf(job.id), inventory(), job_manager_->LogPathOf(job.id), detail);
  if (job.spec->trace_allocations && job.started_at)
    view.trace_path = job_manager_->TracesOf(job.id).string();
  for (const auto* const module : modules_) module->Show(job, view);
  if (detail == JobDetail::kListed) ShortenForList(view);
  return view;
}

api::GpuView Core::View(const guard::GpuStatus& status) {
  auto view = GpuViewOf(
      status, table_, [this](uid_t uid) { return names_.Of(uid); },
      [this](base::JobId id) { return TagOf(id); });
  for (const auto* const module : modules_) module->Show(status, view);
  return view;
}

}  // namespace gpuman::daemon
