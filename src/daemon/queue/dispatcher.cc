#include "daemon/queue/dispatcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "queue/admission.h"
#include "queue/explain.h"
#include "queue/forecast.h"
#include "queue/record.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::JobId;
using base::Result;
using queue::WallTime;

// A pass takes no more than this part of the time, however much happens.
constexpr int kRestPerPass = 4;
constexpr base::Millis kAfterTrouble{5'000};
constexpr base::Millis kLongestSleep{3'600'000};  // the wall clock may be set meanwhile

std::vector<std::string> NamesOf(const queue::GpuSet& set, const queue::Snapshot& snapshot) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < snapshot.gpus.size(); ++i)
    if (set.test(i)) names.push_back(snapshot.gpus[i].uuid);
  return names;
}

queue::Host HostOf() {
  queue::Host host;
  const auto pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && size > 0)
    host.memory = base::Bytes{static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size)};
  const auto processors = ::sysconf(_SC_NPROCESSORS_ONLN);
  if (processors > 0) host.cpus = static_cast<int>(processors);
  return host;
}

}  // namespace

Dispatcher::Dispatcher(boost::asio::io_context& loop, const base::Clock& clock, jobs::Supervisor& jobs,
                       DispatcherHost& host)
    : loop_(loop),
      clock_(clock),
      jobs_(jobs),
      host_(host),
      timer_(loop),
      pause_(loop),
      self_(std::make_shared<Dispatcher*>(this)) {
  book_.SetHost(HostOf());
}

Dispatcher::~Dispatcher() { *self_ = nullptr; }

void Dispatcher::Begin() {
  begun_ = true;
  Wake();
}

// --- Passes ---

void Dispatcher::Wake() {
  dirty_ = true;
  if (!begun_ || pass_posted_) return;
  pass_posted_ = true;
  const auto pass = [self = self_] {
    if (*self) (*self)->Pass();
  };
  if (clock_.Mono() >= next_pass_) return boost::asio::post(loop_, pass);
  pause_.expires_at(next_pass_);
  pause_.async_wait([pass](boost::system::error_code error) {
    if (!error) pass();
  });
}

void Dispatcher::Pass() {
  pass_posted_ = false;
  const auto began = clock_.Mono();
  if (began < stuck_until_) {
    next_pass_ = stuck_until_;
    return Wake();
  }
  const WallTime now = clock_.Wall();
  UpdateWindows(now);
  const auto& snapshot = book_.View(began);
  plan_ = queue::Pass(snapshot, now);
  dirty_ = forecast_ = false;
  SetTimer(plan_.wake_at, now);
  Carry(plan_, snapshot, now);
  const auto ended = clock_.Mono();
  next_pass_ = ended + kRestPerPass * (ended - began);
}

void Dispatcher::SetTimer(std::optional<WallTime> at, WallTime now) {
  timer_.cancel();
  if (!at) return;
  timer_.expires_after(std::clamp(*at - now, base::Millis{1}, kLongestSleep));
  timer_.async_wait([self = self_](boost::system::error_code error) {
    if (!error && *self) (*self)->Wake();
  });
}

// Orders change the book: what they need of the snapshot is taken out of it first.
void Dispatcher::Carry(const queue::Plan& plan, const queue::Snapshot& snapshot, WallTime now) {
  std::vector<std::function<void()>> orders;
  std::optional<queue::Explainer> explainer;
  if (!plan.cancels.empty()) explainer.emplace(snapshot, plan, now);
  for (const auto& cancel : plan.cancels)
    orders.emplace_back([this, job = cancel.job, word = std::string(ToString(cancel.reason)),
                         why = explainer->Of(cancel.waiting)] {
      jobs_.Cancel(job, {word, why}, [](const Result<jobs::Job>&) {});
    });
  for (const auto& preempt : plan.preempts) orders.emplace_back([this, preempt] { Preempt(preempt); });
  for (const auto& move : plan.moves)
    orders.emplace_back([this, job = move.job, from = NamesOf(move.from, snapshot),
                         to = NamesOf(move.to, snapshot)] { Move(job, from, to); });
  for (const auto& resume : plan.resumes)
    orders.emplace_back(
        [this, job = resume.job, gpus = NamesOf(resume.gpus, snapshot)] { Resume(job, gpus); });
  for (const auto& start : plan.starts)
    orders.emplace_back([this, job = start.job, gpus = NamesOf(start.gpus, snapshot)] { Start(job, gpus); });
  for (const auto& order : orders) order();
}

void Dispatcher::Start(JobId id, std::vector<std::string> gpus) {
  jobs_.Start(id, std::move(gpus), [self = self_](const Result<jobs::Job>& started) {
    if (started || started.error().code == ErrorCode::kConflict || !*self) return;
    (*self)->stuck_until_ = (*self)->clock_.Mono() + kAfterTrouble;
  });
  // Its GPUs are its own from here on, not when its start is on the disk.
  if (const auto* const job = jobs_.Find(id)) OnJobChanged(*job);
}

void Dispatcher::Preempt(const queue::Preempt& order) {
  const auto it = active_.find(order.job);
  if (it == active_.end()) return;
  Active& active = it->second;
  const std::string why = fmt::format("it made room for job {}", order.for_job.value);
  active.row.phase = queue::Phase::kLeaving;
  Refresh(active);
  if (order.requeue) return jobs_.Requeue(order.job, {"preempted", why});
  active.row.wants_back = true;
  Refresh(active);
  host_.TakeOff(order.job, why, [self = self_, id = order.job](const Result<>& there) {
    if (there || !*self) return;
    const auto found = (*self)->active_.find(id);
    if (found == (*self)->active_.end()) return;
    // It stays where it is; the next one that needs room ends it.
    found->second.unsuspendable = true;
    found->second.row.wants_back = false;
    found->second.row.phase = queue::Phase::kRunning;
    (*self)->Refresh(found->second);
    (*self)->Wake();
  });
}

void Dispatcher::Resume(JobId id, std::vector<std::string> gpus) {
  const auto it = active_.find(id);
  if (it == active_.end()) return;
  Active& active = it->second;
  active.row.phase = queue::Phase::kRunning;
  active.row.gpus = gpus;
  active.row.on_since = clock_.Mono();
  Refresh(active);
  const auto* const job = jobs_.Find(id);
  const bool elsewhere = gpus.size() == 1 && job && job->gpus != gpus;
  host_.BringBack(id, elsewhere ? std::optional(gpus.front()) : std::nullopt,
                  [self = self_, id](const Result<>& there) {
                    if (!*self) return;
                    const auto found = (*self)->active_.find(id);
                    if (found == (*self)->active_.end()) return;
                    if (there) found->second.row.wants_back = false;
                    if (!there) found->second.row.phase = queue::Phase::kSuspended;
                    (*self)->Refresh(found->second);
                    // One that failed is tried again when something happens.
                    if (there) (*self)->Wake();
                  });
}

void Dispatcher::Move(JobId id, std::vector<std::string> from, std::vector<std::string> to) {
  const auto it = active_.find(id);
  if (it == active_.end() || to.size() != 1) return;
  queue::RunningJob& row = it->second.row;
  const auto before = row.gpus;
  row.phase = queue::Phase::kMoving;
  row.gpus = from;
  row.gpus.insert(row.gpus.end(), to.begin(), to.end());
  row.leaving = from;
  Refresh(it->second);
  host_.MoveTo(id, to.front(), [self = self_, id, before, to](const Result<>& there) {
    if (!*self) return;
    const auto found = (*self)->active_.find(id);
    if (found == (*self)->active_.end()) return;
    found->second.row.phase = queue::Phase::kRunning;
    found->second.row.gpus = there ? to : before;
    found->second.row.leaving.clear();
    found->second.unsuspendable = found->second.unsuspendable || !there;
    (*self)->Refresh(found->second);
    (*self)->Wake();
  });
}

// --- The book ---

void Dispatcher::OnJobChanged(const jobs::Job& job) {
  if (jobs::IsWaiting(job)) {
    active_.erase(job.id);
    PutWaiting(job);
    RememberRecent(job);
  } else if (jobs::IsEnded(job)) {
    active_.erase(job.id);
    dependents_.Erase(job.id);
    book_.Erase(job.id);
    RememberRecent(job);
  } else {
    const bool known = active_.contains(job.id);
    PutActive(job);
    if (known) return;
    dependents_.Erase(job.id);
    RememberRecent(job);
  }
  TellDependents(job.id);
  Wake();
}

void Dispatcher::OnJobForgotten(JobId job) {
  active_.erase(job);
  dependents_.Erase(job);
  book_.Erase(job);
  TellDependents(job);
  Wake();
}

const queue::Request& Dispatcher::RequestFor(const jobs::Job& job) {
  if (!job.queued) {
    last_terms_.reset();
    last_request_ = RequestOfRun(job);
    return last_request_;
  }
  if (last_terms_ != job.terms.pointer()) {
    // A request that cannot be read asks for nothing: the job is shown, and can be cancelled.
    last_request_ = queue::ParseRequest(job.terms->request).value_or(queue::Request{});
    last_terms_ = job.terms.pointer();
  }
  last_request_.array.reset();
  if (job.array.array.value != 0)
    last_request_.array = queue::ArrayTask{job.array.array, job.array.task, job.array.limit};
  last_request_.priority = job.priority;
  return last_request_;
}

void Dispatcher::PutWaiting(const jobs::Job& job) {
  const queue::Request& request = RequestFor(job);
  queue::WaitingJob row{job.id, job.owner.user, job.waiting_since};
  if (job.not_before) row.not_before = *job.not_before;
  row.held = job.state == jobs::JobState::kHeld;
  if (!request.depends.list.empty())
    row.dependency = queue::Judge(request.depends, [this](JobId id) { return ProgressOf(id); });
  dependents_.Set(job.id, request.depends);
  book_.PutWaiting(row, request);
}

// `gpuman run` takes GPUs without asking the queue: what has a limit can be joined by jobs that share.
queue::Request Dispatcher::RequestOfRun(const jobs::Job& job) const {
  queue::Request request;
  request.priority = job.priority;
  request.gpus.devices = GpusOfRun(job);
  request.gpus.count = static_cast<int>(request.gpus.devices.size());
  if (!job.memory || request.gpus.devices.empty()) return request;
  base::Bytes least{UINT64_MAX};
  for (const auto& gpu : host_.GpuInventory().gpus)
    if (std::count(request.gpus.devices.begin(), request.gpus.devices.end(), gpu.uuid) > 0)
      least = std::min(least, job.memory->Of(gpu.memory));
  request.share = true;
  request.memory = least;
  return request;
}

// Those it was given; where it may use all, those that it uses.
std::vector<std::string> Dispatcher::GpusOfRun(const jobs::Job& job) const {
  if (!job.gpus.empty()) return job.gpus;
  std::vector<std::string> used;
  for (const auto& [uuid, status] : host_.GpuStatuses())
    if (std::any_of(status.processes.begin(), status.processes.end(),
                    [&](const gpu::OwnedProcess& process) { return process.job == job.id; }))
      used.push_back(uuid);
  return used;
}

void Dispatcher::PutActive(const jobs::Job& job) {
  const auto [it, fresh] = active_.try_emplace(job.id);
  Active& active = it->second;
  if (!job.queued || fresh || active.terms != job.terms.pointer()) active.request = RequestFor(job);
  active.terms = job.terms.pointer();
  active.row.id = job.id;
  active.row.user = job.owner.user;
  if (fresh) {
    active.row.gpus = job.queued ? job.gpus : active.request.gpus.devices;
    active.row.on_since = clock_.Mono();
    if (job.started_at) {
      const auto ran = clock_.Wall() - *job.started_at - job.suspended;
      active.row.ran_before = std::max(ran, base::Millis{0});
    }
  } else if (!job.queued) {
    active.row.gpus = active.request.gpus.devices;
  }
  const bool stops = job.state == jobs::JobState::kStopping;
  if (stops && active.row.phase == queue::Phase::kRunning) active.row.phase = queue::Phase::kLeaving;
  active.row.suspendable = job.queued && job.state == jobs::JobState::kRunning && !active.unsuspendable;
  active.row.movable = active.row.suspendable && active.row.gpus.size() == 1;
  Refresh(active);
}

void Dispatcher::Refresh(Active& active) {
  const auto* const job = jobs_.Find(active.row.id);
  if (!job) return;
  active.row.user = job->owner.user;
  book_.PutRunning(active.row, active.request);
  dirty_ = true;
}

void Dispatcher::OnPhase(JobId id, suspend::Phase phase) {
  const auto it = active_.find(id);
  if (it == active_.end()) return;
  queue::RunningJob& row = it->second.row;
  switch (phase) {
    case suspend::Phase::kSuspending:
    case suspend::Phase::kRetreating:
      if (row.phase == queue::Phase::kRunning) row.phase = queue::Phase::kLeaving;
      break;
    case suspend::Phase::kSuspended:
      if (row.phase == queue::Phase::kMoving) break;
      row.phase = queue::Phase::kSuspended;
      if (row.on_since)
        row.ran_before += std::chrono::duration_cast<base::Millis>(clock_.Mono() - *row.on_since);
      row.on_since.reset();
      row.since = clock_.Wall();
      row.wants_back = row.wants_back || host_.IsPreempted(id);
      break;
    case suspend::Phase::kResuming:
    case suspend::Phase::kUndoing:
      break;
    default:
      if (row.phase == queue::Phase::kMoving || row.phase == queue::Phase::kRunning) break;
      if (const auto* const job = jobs_.Find(id); !job || job->state != jobs::JobState::kRunning) break;
      row.phase = queue::Phase::kRunning;
      row.wants_back = false;
      if (!row.on_since) row.on_since = clock_.Mono();
  }
  jobs_.SetOffGpu(id, phase == suspend::Phase::kSuspended);
  Refresh(it->second);
  Wake();
}

bool Dispatcher::WantBack(JobId id) {
  const auto it = active_.find(id);
  if (it == active_.end() || it->second.row.phase != queue::Phase::kSuspended) return false;
  it->second.row.wants_back = true;
  Refresh(it->second);
  Wake();
  return true;
}

// --- GPUs ---

void Dispatcher::OnInventory() {
  std::vector<queue::Gpu> gpus;
  for (const auto& known : host_.GpuInventory().gpus) {
    queue::Gpu gpu;
    gpu.index = known.index;
    gpu.uuid = known.uuid;
    gpu.model = known.name;
    gpu.memory = known.memory - host_.ReserveOf(known.uuid);
    gpu.restricted = state_.allowed && !state_.allowed->contains(known.uuid);
    const auto use = foreign_.find(known.uuid);
    if (use != foreign_.end()) {
      gpu.foreign = use->second.memory;
      gpu.unmanaged = use->second.unmanaged;
      gpu.holder = use->second.holder;
    }
    const auto status = host_.GpuStatuses().find(known.uuid);
    gpu.lost = status != host_.GpuStatuses().end() && status->second.sample.state != gpu::GpuState::kOk;
    gpus.push_back(std::move(gpu));
  }
  book_.SetGpus(std::move(gpus));
  // Rows name GPUs by their place.
  for (auto& [id, active] : active_) Refresh(active);
  Wake();
}

void Dispatcher::OnSample(const std::string& uuid) {
  const auto status = host_.GpuStatuses().find(uuid);
  if (status == host_.GpuStatuses().end()) return;
  const bool lost = status->second.sample.state != gpu::GpuState::kOk;
  const auto& gpus = book_.snapshot().gpus;
  const auto row = std::find_if(gpus.begin(), gpus.end(), [&](const auto& gpu) { return gpu.uuid == uuid; });
  if (row != gpus.end() && row->lost != lost) OnInventory();
  for (auto& [id, active] : active_) {
    const auto* const job = jobs_.Find(id);
    if (!job || job->queued || !job->gpus.empty()) continue;
    const auto used = GpusOfRun(*job);
    if (used == active.row.gpus) continue;
    PutActive(*job);
    Wake();
  }
  auto use = ForeignOn(
      status->second, state_.ignored, host_.ProtectedNames(),
      [this](uid_t uid) { return host_.NameOfUser(uid); },
      [](const base::ProcessId& process) { return base::IsAlive(process); });
  auto& known = foreign_[uuid];
  if (use == known) return;
  // Memory that comes and goes is no reason to look again; room that appears is.
  const bool matters = use.unmanaged != known.unmanaged || use.memory < known.memory;
  known = std::move(use);
  book_.SetForeign(uuid, known.memory, known.unmanaged, known.holder);
  dirty_ = true;
  if (matters) Wake();
}

ForeignUse Dispatcher::ForeignUseOf(const std::string& gpu) const {
  const auto it = foreign_.find(gpu);
  return it == foreign_.end() ? ForeignUse{} : it->second;
}

void Dispatcher::SetState(const QueueState& state) {
  state_ = state;
  book_.SetPaused(state.paused);
  auto settings = book_.snapshot().settings;
  settings.choice = state.choice;
  book_.SetSettings(settings);
  OnInventory();
  for (const auto& gpu : host_.GpuInventory().gpus) OnSample(gpu.uuid);
}

void Dispatcher::SetSettings(const queue::Settings& settings, base::Millis window) {
  auto pass = settings;
  pass.choice = state_.choice;
  book_.SetSettings(pass);
  window_ = window;
}

void Dispatcher::UpdateWindows(WallTime now) {
  for (auto& [account, window] : windows_) {
    window.Forget(now);
    book_.SetWindow(account.first, account.second, window.GpuSeconds(), window.Relief());
  }
}

void Dispatcher::Charge(const jobs::RunAccount& run) {
  queue::Rate rate;
  rate.gpus = static_cast<double>(run.gpus.size());
  for (const auto& gpu : host_.GpuInventory().gpus)
    if (std::count(run.gpus.begin(), run.gpus.end(), gpu.uuid) > 0 && gpu.memory.count > 0)
      rate.memory +=
          std::min(1.0, static_cast<double>(run.memory.count) / static_cast<double>(gpu.memory.count));
  using Kind = queue::AccountKind;
  const auto from = run.ended - run.ran;
  windows_.try_emplace({Kind::kUser, run.user}, window_).first->second.Add(rate.gpus, from, run.ended);
  if (!run.project.empty())
    windows_.try_emplace({Kind::kProject, run.project}, window_)
        .first->second.Add(rate.gpus, from, run.ended);
  book_.Charge(run.user, run.project, rate, run.ended - run.ran, run.ended);
}

// --- Dependencies ---

queue::Progress Dispatcher::ProgressOf(JobId id) const {
  const auto* const job = jobs_.Find(id);
  if (!job) return queue::Progress::kUnknown;
  if (jobs::IsWaiting(*job)) return job->runs > 0 ? queue::Progress::kBegan : queue::Progress::kWaits;
  if (!jobs::IsEnded(*job)) return queue::Progress::kBegan;
  if (job->state == jobs::JobState::kFinished) return queue::Progress::kOk;
  return job->runs > 0                              ? queue::Progress::kNotOk
         : job->state == jobs::JobState::kCancelled ? queue::Progress::kCancelled
                                                    : queue::Progress::kNotOk;
}

void Dispatcher::TellDependents(JobId id) {
  for (const JobId dependent : dependents_.Of(id))
    if (const auto* const depends = dependents_.DependenciesOf(dependent))
      book_.SetDependency(dependent,
                          queue::Judge(*depends, [this](JobId other) { return ProgressOf(other); }));
}

}  // namespace gpuman::daemon
