#include "daemon/suspension/suspend_controller.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/shims/module.h"

namespace gpuman::daemon {
namespace {

using suspend::SuspensionPhase;

constexpr base::Millis kPrepareEvery{50};
constexpr base::Millis kFindLimit{10'000};  // for a job's ledger and its GPUs, after a restart
constexpr std::size_t kMaxNamed = 64;  // a user's processes on one GPU that a mover is told of one by one

bool IsAtRest(SuspensionPhase phase) {
  return phase == SuspensionPhase::kRunning || phase == SuspensionPhase::kSuspended ||
         phase == SuspensionPhase::kEnded;
}

}  // namespace

SuspendController::SuspendController(Core& core, const ShimsModule& shims, SuspendControllerSettings settings,
                                     suspend::CheckpointerOptions checkpointer)
    : core_(core),
      shims_(shims),
      readings_(core, shims),
      settings_(settings),
      checkpointer_(core.loop(), core.workers(), std::move(checkpointer)) {}

void SuspendController::Begin(base::JobId job, const std::string& stored) {
  if (stored.empty() || entries_.contains(job)) return;
  auto record = suspend::ParseRecord(stored);
  if (!record) return;
  Entry entry{suspend::SuspensionStateMachine::Rebuild(SettingsFor(job), std::move(*record))};
  entry.back_since = core_.clock().Mono();
  entry.restored_at = entry.back_since;
  entry.stored = stored;
  entries_.emplace(job, std::move(entry));
  TellPhase(job);
  Observe(job);
}

void SuspendController::End(base::JobId job) {
  if (!entries_.contains(job)) return;
  Feed(job, suspend::event::Ended{});
  auto node = entries_.extract(job);
  on_phase(job, SuspensionPhase::kRunning);
  for (auto& waiter : node.mapped().waiters)
    waiter.done(base::Fail(base::ErrorCode::kConflict, "the job has ended"));
}

const suspend::SuspensionRecord* SuspendController::RecordOf(base::JobId job) const {
  const auto it = entries_.find(job);
  return it == entries_.end() ? nullptr : &it->second.machine.record();
}

std::optional<suspend::BytesByGpu> SuspendController::LeftOf(base::JobId job) const {
  const auto* const record = RecordOf(job);
  if (record && record->phase == SuspensionPhase::kSuspended) return record->left;
  if (record && record->phase != SuspensionPhase::kRunning) return std::nullopt;
  return readings_.WouldStay(job, checkpoints_);
}

suspend::SuspensionSettings SuspendController::SettingsFor(base::JobId job) {
  suspend::SuspensionSettings settings = settings_.machine;
  settings.restores_held = takes_turns_(job);
  return settings;
}

SuspendController::Entry& SuspendController::EntryFor(base::JobId job) {
  if (!entries_.contains(job))
    entries_.emplace(job, Entry{suspend::SuspensionStateMachine(SettingsFor(job))});
  Observe(job);
  return entries_.at(job);
}

void SuspendController::Suspend(base::JobId job, suspend::event::SuspendAsked asked, Done done) {
  Entry& entry = EntryFor(job);
  const auto room = HostRoomFor(job);
  if (auto may = room ? entry.machine.CanSuspend(*room) : base::Result<>(base::Fail(room.error())); !may) {
    return Refuse(job, "suspend_refused", std::move(may).error(), room, done);
  }
  entry.back_since = core_.clock().Mono();
  entry.waiters.push_back({Goal::kOut, std::move(done)});
  Feed(job, std::move(asked));
}

base::Result<> SuspendController::MaySuspend(base::JobId job) {
  Entry& entry = EntryFor(job);
  const auto room = HostRoomFor(job);
  auto may = room ? entry.machine.CanSuspend(*room) : base::Result<>(base::Fail(room.error()));
  DropIfDone(job);
  return may;
}

void SuspendController::Resume(base::JobId job, std::optional<std::string> gpu, Done done) {
  Entry& entry = EntryFor(job);
  if (auto may = entry.machine.CanResume(gpu); !may) {
    DropIfDone(job);
    return done(std::move(may));
  }
  entry.back_since = core_.clock().Mono();
  entry.machine.SetSettings(SettingsFor(job));  // other jobs may share its GPU now
  entry.waiters.push_back({Goal::kBack, std::move(done), gpu.has_value()});
  Feed(job, suspend::event::ResumeAsked{std::move(gpu)});
  OfferRoom();
}

void SuspendController::Move(base::JobId job, const std::string& gpu, Done done) {
  Entry& entry = EntryFor(job);
  const auto room = HostRoomFor(job);
  if (auto may = room ? entry.machine.CanMove(gpu, *room) : base::Result<>(base::Fail(room.error())); !may) {
    return Refuse(job, "move_refused", std::move(may).error(), room, done);
  }
  entry.back_since = core_.clock().Mono();
  entry.waiters.push_back({Goal::kElsewhere, std::move(done), true});
  Feed(job, suspend::event::MoveAsked{gpu});
  OfferRoom();
}

void SuspendController::SetSettings(SuspendControllerSettings settings) {
  settings_ = settings;
  for (auto& [job, entry] : entries_) entry.machine.SetSettings(SettingsFor(job));
}

void SuspendController::OnSample() {
  std::vector<base::JobId> jobs;
  for (const auto& [job, entry] : entries_) jobs.push_back(job);
  for (const auto job : jobs) {
    Observe(job);
    DropIfDone(job);
  }
  if (!jobs.empty()) OfferRoom();
  checkpointer_.ForgetDead();
  // PrepareMovers looks at all GPUs, and their samples come together, so once in a while is enough.
  if (core_.clock().Mono() >= prepare_at_) PrepareMovers();
}

bool SuspendController::AreProcessesKnown(base::JobId id) const {
  const auto* const job = core_.jobs().Find(id);
  if (!job) return true;
  const auto* const channel = shims_.channel();
  if (jobs::HasGate(*job) && channel && !channel->Has(id)) return false;
  const auto& sampled = core_.guard().Statuses();
  const auto gpus = job->gpus.empty() ? core_.AllGpus() : job->gpus;
  return std::all_of(gpus.begin(), gpus.end(), [&](const auto& gpu) {
    const auto found = sampled.find(gpu);
    return found != sampled.end() && found->second.sample.taken_at != base::MonoTime{};
  });
}

void SuspendController::Observe(base::JobId job) {
  const auto it = entries_.find(job);
  // While orders wait for the disk, the ledger does not have them yet, and would look like one whose process
  // refused them.
  if (it == entries_.end() || it->second.storing) return;
  // Without its processes a job on its way looks as if it had nothing on a GPU: it would count as suspended,
  // and a call as having brought it back, while its shims carry out the order of the daemon before.
  if (auto& restored = it->second.restored_at) {
    if (!AreProcessesKnown(job) && core_.clock().Mono() < *restored + kFindLimit) return;
    restored.reset();
  }
  auto processes = readings_.ProcessesOf(job, it->second.machine.record());
  it->second.silent =
      std::any_of(processes.begin(), processes.end(), [](const auto& one) { return one.silent; });
  Feed(job, suspend::event::Observed{std::move(processes), readings_.Gpus()});
}

// A timed check.
void SuspendController::PollAnswers(base::JobId job) {
  const auto it = entries_.find(job);
  if (it != entries_.end()) it->second.poll.Checked(core_.clock().Mono(), it->second.silent);
  Observe(job);
}

void SuspendController::OnNotify(base::JobId job) {
  const auto it = entries_.find(job);
  if (it != entries_.end() && it->second.on_the_way) Observe(job);
}

void SuspendController::Feed(base::JobId job, const suspend::Event& event) {
  const auto it = entries_.find(job);
  if (it == entries_.end()) return;
  it->second.to_do.push_back(it->second.machine.On(event, core_.clock().Mono()));
  TellPhase(job);
  Pump(job);
}

void SuspendController::TellPhase(base::JobId job) {
  Entry& entry = entries_.at(job);
  const SuspensionPhase phase = entry.machine.phase();
  if (phase == SuspensionPhase::kResuming) entry.coming = Coming(entry.machine.record());
  const auto target = std::exchange(
      entry.target, phase == SuspensionPhase::kResuming ? entry.machine.record().target : std::nullopt);
  // Before the record is stored: a daemon that finds the job on its way does this again.
  if (target && phase == SuspensionPhase::kRunning && shims_.channel())
    shims_.channel()->FollowMove(job, *target);
  const SuspensionPhase before = std::exchange(entry.reported, phase);
  if (before == phase) return;
  if (auto* const channel = shims_.channel()) channel->SetSuspends(job, phase != SuspensionPhase::kRunning);
  if (before == SuspensionPhase::kResuming)
    arrivals_.Add(core_.clock().Mono(), std::exchange(entry.coming, {}));
  if (phase == SuspensionPhase::kRunning) ForgetThoseBack(job, entry.machine.record());
  // Kept copies give way to what comes; of what goes back copies may be kept.
  if (phase == SuspensionPhase::kSuspending || phase == SuspensionPhase::kResuming) PrepareMovers();
  on_phase(job, phase);
}

// A mover that died may not have reported that a process has its memory back. Without Forget, memory that is
// kept for that process would stay on the GPU.
void SuspendController::ForgetThoseBack(base::JobId job, const suspend::SuspensionRecord& record) {
  const auto owner = readings_.OwnerOf(job);
  if (!owner) return;
  for (const auto& process : readings_.ProcessesOf(job, record)) {
    const bool away = std::any_of(process.gpus.begin(), process.gpus.end(),
                                  [](const auto& gpu) { return gpu.second.evicted.count > 0; });
    if (process.has_shim && !away) checkpointer_.Forget(*owner, process.id);
  }
}

// The changed record is on the disk before its actions are performed. So if the daemon is killed in between,
// the next one knows what it was about to do.
void SuspendController::Pump(base::JobId job) {
  auto it = entries_.find(job);
  if (it == entries_.end() || it->second.storing) return;
  Entry& entry = it->second;
  const std::string record = suspend::SerializeRecord(entry.machine.record());
  if (record != entry.stored && !entry.to_do.empty()) {
    entry.stored = record;
    entry.storing = true;
    return Save(job, record, self_.Bind([job](SuspendController& me) {
      const auto found = me.entries_.find(job);
      if (found == me.entries_.end()) return;
      found->second.storing = false;
      me.Pump(job);
    }));
  }
  while (!entry.to_do.empty()) {
    const auto actions = std::move(entry.to_do.front());
    entry.to_do.pop_front();
    Perform(job, actions);
    if (!entries_.contains(job)) return;
  }
  AnswerWaiters(job);
  AwaitFigures(job);
  SetTimer(job);
}

void SuspendController::AwaitFigures(base::JobId job) {
  const auto it = entries_.find(job);
  if (it == entries_.end()) return;
  const bool waits = it->second.machine.AwaitsFigures();
  if (!std::exchange(it->second.sampling, waits) && waits) core_.SampleNow();
}

void SuspendController::PrepareMovers() {
  prepare_at_ = core_.clock().Mono() + kPrepareEvery;
  std::map<suspend::MoverUser, suspend::HostDemand> wanted;
  std::set<suspend::MoverUser> unwanted;
  for (const auto& one : readings_.EvictableMemoryOfJobs()) {
    if (IsPushedOff(one.job)) {
      unwanted.insert(one.user);
      continue;
    }
    auto& processes = wanted[one.user][one.gpu];
    if (processes.size() < kMaxNamed)
      processes.push_back(one.bytes);
    else
      processes.back() += one.bytes;
  }
  for (const auto& user : prepared_)
    if (!wanted.contains(user)) checkpointer_.Prepare(user, {});
  for (const auto& user : unwanted)
    if (!wanted.contains(user)) checkpointer_.Retire(user);
  prepared_.clear();
  BytesByUser sums;
  for (const auto& [user, demand] : wanted) sums[user] = suspend::SumOf(demand);
  const auto keep = MayKeep(sums);
  for (auto& [user, demand] : wanted) {
    checkpointer_.Prepare(user, std::move(demand), keep ? std::optional(keep->at(user)) : std::nullopt);
    prepared_.insert(user);
  }
}

bool SuspendController::IsPushedOff(base::JobId job) const {
  const auto* const record = RecordOf(job);
  return record && record->phase == SuspensionPhase::kSuspended && record->absence;
}

void SuspendController::AnswerWaiters(base::JobId job) {
  const auto it = entries_.find(job);
  if (it == entries_.end() || it->second.waiters.empty()) return;
  const auto& record = it->second.machine.record();
  if (!IsAtRest(record.phase)) return;
  std::vector<Waiter> waiting;
  for (auto& waiter : std::exchange(it->second.waiters, {})) {
    const bool out = waiter.goal == Goal::kOut;
    const bool undone = waiter.elsewhere && !record.reason.empty();
    const bool done =
        record.phase == (out ? SuspensionPhase::kSuspended : SuspensionPhase::kRunning) && !undone;
    const bool on_its_way = !out && record.phase == SuspensionPhase::kSuspended && record.wants_gpu;
    const bool waits_for_room = on_its_way && (record.reason == "resources" || record.absence);
    if (on_its_way && !waits_for_room) {
      waiting.push_back(std::move(waiter));
      continue;
    }
    base::Result<> result;
    if (!done && (!waits_for_room || it->second.machine.HasFailedBack()))
      result = base::Fail(base::ErrorCode::kUnsatisfiable,
                          record.detail.empty() ? "the job is where it was" : record.detail);
    boost::asio::post(core_.loop(),
                      [answer = std::move(waiter.done), result = std::move(result)] { answer(result); });
  }
  it->second.waiters = std::move(waiting);
  DropIfDone(job);
}

// A job that runs normally needs no state machine, once the samples show it where it is.
void SuspendController::DropIfDone(base::JobId job) {
  const auto it = entries_.find(job);
  if (it == entries_.end()) return;
  const auto& record = it->second.machine.record();
  if (record.phase != SuspensionPhase::kRunning || !record.wants_gpu || !record.reason.empty() ||
      !it->second.waiters.empty() || it->second.storing || !it->second.to_do.empty() ||
      it->second.machine.KnowsMoreThanSamples())
    return;
  if (!it->second.stored.empty()) Save(job, {}, [] {});
  entries_.erase(it);
}

void SuspendController::SetTimer(base::JobId job) {
  const auto it = entries_.find(job);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  auto due = entry.machine.Deadline();
  const bool on_the_way = !IsAtRest(entry.machine.phase());
  if (on_the_way) {
    if (!entry.on_the_way) entry.poll.Ordered(core_.clock().Mono());
    due = due ? std::min(*due, entry.poll.due()) : entry.poll.due();
  }
  entry.on_the_way = on_the_way;
  if (!due) {
    entry.timer.reset();
    return;
  }
  if (!entry.timer) entry.timer = std::make_unique<boost::asio::steady_timer>(core_.loop());
  entry.timer->expires_at(*due);
  entry.timer->async_wait(
      self_.Bind([job, on_the_way](SuspendController& me, boost::system::error_code error) {
        if (error) return;
        if (on_the_way) me.PollAnswers(job);
        me.Feed(job, suspend::event::Tick{});
        me.OfferRoom();
      }));
}

}  // namespace gpuman::daemon
