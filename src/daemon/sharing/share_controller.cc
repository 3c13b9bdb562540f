#include "daemon/sharing/share_controller.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "daemon/core/core.h"
#include "daemon/shims/slot_state.h"
#include "share/text.h"

namespace gpuman::daemon {
namespace {

// The first check of the ledgers comes this long after an order. While jobs take room, for which shims send
// no notification, checks come this often.
constexpr base::Millis kLedgerPoll{2};
// While a gate is closed, the daemon shows life this often; the process waits for five such intervals.
constexpr base::Millis kShowLife{1000};

// The daemon waits this long before it denies an allocation, because the figures may have been those of a
// moment; longer where only what others have there is in the way, because the driver frees the contexts of
// processes that ended one after the other; a daemon that has just begun waits longer, because it does not
// know all processes yet.
constexpr base::Millis kDenyAfter{300}, kDenyForOthersAfter{2000}, kHeardOfAll{3000};

// All memory of these processes is on the GPU, and their gates are open.
bool RunWhole(const std::vector<ledger::SlotStatus>& slots) {
  return std::all_of(slots.begin(), slots.end(), [](const ledger::SlotStatus& one) {
    return one.ordered == ledger::wire::OrderKind::kRun && one.evicted.count == 0 &&
           one.residency != ledger::wire::MemoryResidency::kHeld &&
           (one.answered || one.residency == ledger::wire::MemoryResidency::kNone);
  });
}

std::string UserOf(const SharedJob& job) { return fmt::format("{} {}", job.owner.uid, job.owner.trust); }

bool IsLogged() { return spdlog::should_log(spdlog::level::debug); }

}  // namespace

ShareController::ShareController(Core& core, ShimChannel& shims, JobQuiescer& quiescer,
                                 SuspendController& suspension, share::SchedulerSettings settings)
    : core_(core),
      clock_(core.clock()),
      shims_(shims),
      quiescer_(quiescer),
      suspension_(suspension),
      scheduler_(std::move(settings)),
      capacity_(core, shims, suspension),
      restores_(core.loop(), shims, suspension, [this](const share::Event& event) { OnTransfer(event); }),
      evictions_(core, shims, suspension, restores_,
                 {.tell = [this](const share::Event& event) { OnTransfer(event); },
                  .order =
                      [this](base::JobId job, base::ProcessId process, const ledger::ProcessOrder& command) {
                        entries_.at(job).ordered = clock_.Mono();
                        return Order(job, process, command);
                      },
                  .check =
                      [this](base::JobId job) {
                        if (Entry* const there = Find(job)) Check(*there);
                      },
                  .check_soon = [this](base::JobId job) { CheckSoon(job); }}),
      turn_(core.loop()),
      poll_(core.loop()),
      life_(core.loop()),
      answer_poll_(kLedgerPoll),
      began_(core.clock().Mono()) {
  quiescer_.SetCallGrants(scheduler_.settings().step);
}

ShareController::Entry* ShareController::Find(base::JobId job) {
  const auto found = entries_.find(job);
  return found == entries_.end() ? nullptr : &found->second;
}

// --- Jobs that take part ---

std::vector<SharedJob> ShareController::SharedJobs() const {
  std::vector<SharedJob> shared;
  for (const auto* const job : core_.jobs().Active()) {
    // A job that is being stopped still needs its turn in order to end.
    const bool stops = job->state == spec::JobState::kStopping;
    if (!MayShare(*job) || (job->state != spec::JobState::kRunning && !stops) || !shims_.Has(job->id))
      continue;
    const auto owner = suspension_.readings().OwnerOf(job->id);
    if (!owner) continue;
    const auto* const record = suspension_.RecordOf(job->id);
    const bool withdrawn =
        stops ? IsWithdrawn(job->id) : record && record->phase != suspend::SuspensionPhase::kRunning;
    shared.push_back({job->id, *owner, TenantOptionsOf(*job->spec),
                      job->gpus.empty() ? core_.AllGpus() : job->gpus, withdrawn, job->spec->oversubscribe});
  }
  return shared;
}

void ShareController::Reconcile() {
  auto jobs = SharedJobs();
  std::set<base::JobId> there;
  for (const auto& job : jobs) there.insert(job.id);
  std::vector<base::JobId> gone;
  for (const auto& [id, entry] : entries_)
    if (!there.contains(id)) gone.push_back(id);
  for (const auto id : gone) Leave(id);
  if (!jobs.empty() && capacity_.capacities().empty()) SetCapacities();
  for (auto& job : jobs) {
    Entry* const known = Find(job.id);
    if (!known) {
      Join(std::move(job));
      continue;
    }
    const bool options_changed = known->job.options != job.options;
    const bool was_withdrawn = known->job.withdrawn, withdrawn = job.withdrawn;
    known->job = std::move(job);
    if (options_changed) Feed(share::event::OptionsChanged{known->job.id, known->job.options});
    if (withdrawn && !was_withdrawn) Withdraw(*known);
    if (!withdrawn && was_withdrawn) TakeBack(*known);
  }
}

void ShareController::Join(SharedJob job) {
  const auto id = job.id;
  Entry& entry = entries_[id];
  entry.job = std::move(job);
  entry.ordered = clock_.Mono();
  // An earlier daemon may have left the job in any state.
  const bool runs = RunWhole(shims_.SlotStatusesOf(id)) && !entry.job.withdrawn;
  Feed(share::event::Joined{id,
                            entry.job.options,
                            runs ? share::GatePosition::kOpen : share::GatePosition::kClosed,
                            UserOf(entry.job),
                            {entry.job.gpus.begin(), entry.job.gpus.end()}});
  if (entry.job.withdrawn) return Withdraw(entry);
  if (!runs) return TakeBack(entry);
  Check(entry);
}

void ShareController::Leave(base::JobId job) {
  // The job gets no turn any more, so all processes that are left of it run on.
  if (Entry& entry = entries_.at(job); shims_.Has(job) && !entry.job.withdrawn) {
    shims_.SetSharing(job, {});
    for (const auto& gpu : entry.job.gpus) shims_.SetRoom(job, gpu, std::nullopt);
    quiescer_.Cancel(job, entry.rest);
    (void)OrderAll(job, {ledger::wire::OrderKind::kRun});
  }
  restores_.Forget(job);
  evictions_.Forget(job);
  entries_.erase(job);
  Feed(share::event::Left{job});
}

// The suspend controller has the job from now on. The bounds on its room are lifted, because an allocation
// that waits for room would wait for ever.
void ShareController::Withdraw(Entry& entry) {
  quiescer_.Cancel(entry.job.id, entry.rest);
  entry.mode = Entry::Mode::kWithdrawn;
  entry.open = false;
  entry.close.reset();
  entry.opening.reset();
  entry.at_work.clear();
  entry.silence.clear();
  evictions_.Abort(entry.job.id);
  restores_.Abort(entry.job);
  entry.granted.clear();
  entry.room.Clear();
  shims_.SetSharing(entry.job.id, {});
  for (const auto& gpu : entry.job.gpus) shims_.SetRoom(entry.job.id, gpu, std::nullopt);
  entry.sent = {};
  entry.stale = true;
  SetCapacities();  // the suspend controller frees the job's memory
  Feed(share::event::Suspended{entry.job.id});
}

// Shuts the job's gate before the job takes part (again). A job that runs with all of its memory runs on: its
// suspension was undone, and it has lost enough time by that.
void ShareController::TakeBack(Entry& entry) {
  if (RunWhole(shims_.SlotStatusesOf(entry.job.id))) return JoinOpen(entry, {});
  entry.mode = Entry::Mode::kTaking;
  entry.open = false;
  BringToRest(entry, settings().yield_limit);
}

void ShareController::SetSettings(share::SchedulerSettings settings) {
  quiescer_.SetCallGrants(settings.step);
  Feed(share::event::SettingsChanged{std::move(settings)});
  capacity_.Forget();
  SetCapacities();
}

void ShareController::SetCapacities() {
  GpuCapacityMeter::Tenants tenants;
  for (const auto& [id, entry] : entries_) {
    if (entry.mode != Entry::Mode::kWithdrawn) tenants.taking_part.insert(id);
    for (const auto& gpu : entry.job.gpus) {
      tenants.users[gpu].insert(entry.job.owner);
      ++tenants.jobs[gpu];
    }
  }
  for (const auto& changed : capacity_.Update(tenants, settings())) Feed(changed);
}

void ShareController::Tell(const share::action::EventReport& report) {
  if (const auto* const job = core_.jobs().Find(report.tenant))
    core_.AddJobEvent(*job, {report.kind, report.message, report.data});
}

// --- The scheduler ---

void ShareController::Feed(const share::Event& event) {
  events_.push_back(event);
  if (std::exchange(feeding_, true)) return;
  while (!events_.empty()) {
    const auto next = std::move(events_.front());
    events_.pop_front();
    if (IsLogged()) spdlog::debug("share: {}", share::TextOf(next));
    for (const auto& action : scheduler_.On(next, clock_.Mono())) {
      if (IsLogged()) spdlog::debug("share: -> {}", share::TextOf(action));
      Perform(action);
    }
    // A process leaves all its GPUs at the same moment, by one order.
    evictions_.SendOrders();
  }
  feeding_ = false;
  UpdateRoomAndTimers();
}

// Memory has moved, or all of an order has. In the latter case the ledgers show it in a moment.
void ShareController::OnTransfer(const share::Event& event) {
  const auto is_over = [this](base::JobId job) {
    if (Entry* const entry = Find(job)) entry->stale = true;
    CheckSoon(job);
  };
  if (const auto* const done = std::get_if<share::event::EvictDone>(&event)) is_over(done->tenant);
  if (const auto* const done = std::get_if<share::event::RestoreDone>(&event)) is_over(done->tenant);
  Feed(event);
}

void ShareController::Perform(const share::Action& action) {
  using namespace share::action;  // NOLINT(google-build-using-namespace)
  const auto with = [this](share::TenantId tenant, auto act) {
    if (Entry* const entry = Find(tenant); entry && entry->mode == Entry::Mode::kShared) act(*entry);
  };
  std::visit(
      base::Overloaded{
          [&](const share::action::Open& order) { with(order.tenant, [&](Entry& e) { Open(e); }); },
          [&](const share::action::Close& order) { with(order.tenant, [&](Entry& e) { Close(e, order); }); },
          [&](const share::action::Evict& order) {
            with(order.tenant, [&](Entry& e) { evictions_.Begin(e.job, order, e.at_work); });
          },
          [&](const share::action::Restore& order) {
            with(order.tenant, [&](Entry& e) { restores_.Begin(e.job, order.order); });
          },
          [&](const share::action::CancelRestore& order) {
            with(order.tenant, [&](Entry& e) { restores_.Stop(e.job.id, {}); });
          },
          [&](const MemoryGrant& grant) { with(grant.tenant, [&](Entry& e) { GrantRoom(e, grant); }); },
          [&](const Deny& deny) {
            with(deny.tenant, [&](Entry& e) {
              const base::Millis after = deny.for_others ? kDenyForOthersAfter : kDenyAfter;
              e.room.DenyAt(deny.gpu, std::max(clock_.Mono() + after, began_ + kHeardOfAll));
            });
          },
          [&](const share::action::Escalate& escalate) { on_escalate(escalate); },
          [&](const EventReport& report) { Tell(report); },
      },
      action);
}

// Brings room and timers in line with the scheduler's present state.
void ShareController::UpdateRoomAndTimers() {
  TellRoom();
  SetTimers();
  on_turns();
}

std::map<base::JobId, ShareController::Turn> ShareController::Turns() const {
  std::map<base::JobId, Turn> turns;
  for (const auto& [id, entry] : entries_) {
    if (entry.mode == Entry::Mode::kWithdrawn) continue;
    Turn& turn = turns[id];
    turn.runs = entry.open || entry.close || entry.mode == Entry::Mode::kTaking;
    turn.idle =
        entry.activity == share::TenantActivity::kIdle || entry.activity == share::TenantActivity::kWaiting;
    turn.comes = restores_.GpusOf(id);
    turn.leaves = evictions_.GpusOf(id);
  }
  return turns;
}

// A silent job is checked only with the samples. While its gate is closing, JobQuiescer reads the answers.
bool ShareController::IsBusy(const Entry& entry) const {
  if (!entry.silence.empty()) return false;
  return entry.opening || evictions_.IsUnderWay(entry.job.id) || entry.room.IsBeingTaken();
}

// Whether a process of the job has an open order and a shim that sends no notifications.
bool ShareController::AnswersSilently(const Entry& entry) const {
  const auto slots = shims_.SlotStatusesOf(entry.job.id);
  return std::any_of(slots.begin(), slots.end(), daemon::AnswersSilently);
}

base::Result<> ShareController::Order(base::JobId job, base::ProcessId process,
                                      const ledger::ProcessOrder& command) {
  answer_poll_.Ordered(clock_.Mono());
  return shims_.Order(job, process, command);
}

base::Result<unsigned> ShareController::OrderAll(base::JobId job, const ledger::ProcessOrder& command) {
  answer_poll_.Ordered(clock_.Mono());
  return shims_.OrderAll(job, command);
}

void ShareController::SetTimers() {
  if (const auto due = scheduler_.Deadline()) {
    turn_.expires_at(*due);
    turn_.async_wait(self_.Bind([](ShareController& me, const boost::system::error_code& error) {
      if (!error) me.Feed(share::event::Tick{});
    }));
  } else {
    turn_.cancel();
  }
  if (!showing_life_) ShowLife();
  bool busy = false, often = silent_;
  for (const auto& [id, entry] : entries_) {
    if (!IsBusy(entry)) continue;
    busy = true;
    often = often || entry.room.IsBeingTaken();
  }
  if (!busy) return;
  auto due = answer_poll_.due();
  if (often) due = std::min(due, clock_.Mono() + kLedgerPoll);
  if (polling_ && poll_at_ <= due) return;
  polling_ = true;
  poll_at_ = due;
  poll_.expires_at(due);
  poll_.async_wait(self_.Bind([](ShareController& me, const boost::system::error_code& error) {
    if (!error) me.Poll();
  }));
}

// A process at its gate runs on where it sees no life (docs/shim-protocol.md): nobody would open its gate.
void ShareController::ShowLife() {
  showing_life_ = false;
  for (const auto& [id, entry] : entries_) {
    if (entry.open || entry.mode == Entry::Mode::kWithdrawn) continue;
    shims_.ShowLife(id);
    showing_life_ = true;
  }
  if (!showing_life_) return;
  life_.expires_after(kShowLife);
  life_.async_wait(self_.Bind([](ShareController& me, const boost::system::error_code& error) {
    if (!error) me.ShowLife();
  }));
}

void ShareController::Poll() {
  answer_poll_.Checked(clock_.Mono(), silent_);
  std::vector<base::JobId> busy;
  for (const auto& [id, entry] : entries_)
    if (IsBusy(entry)) busy.push_back(id);
  for (const auto id : busy)
    if (Entry* const entry = Find(id)) Check(*entry);
  silent_ = std::any_of(entries_.begin(), entries_.end(), [this](const auto& one) {
    return IsBusy(one.second) && AnswersSilently(one.second);
  });
  polling_ = false;
  SetTimers();
}

// For callers that may run inside Feed: the check, which tells the scheduler of the job's memory, runs later
// from the loop.
void ShareController::CheckSoon(base::JobId job) {
  boost::asio::post(core_.loop(), self_.Bind([job](ShareController& me) {
    if (Entry* const there = me.Find(job)) me.Check(*there);
  }));
}

void ShareController::OnNotify(base::JobId job) {
  // The job wants room: first the other jobs are checked, because what they have taken of their shares is no
  // longer free.
  const auto slots = shims_.SlotStatusesOf(job);
  if (std::any_of(slots.begin(), slots.end(), [](const auto& one) { return one.wants.count > 0; })) {
    for (const auto id : Jobs())
      if (Entry* const other = id == job ? nullptr : Find(id)) Check(*other);
  }
  if (Entry* const entry = Find(job)) Check(*entry);
  SetTimers();  // the answers to orders that Check gave are read soon
}

std::vector<base::JobId> ShareController::Jobs() const {
  std::vector<base::JobId> jobs;
  for (const auto& [id, entry] : entries_) jobs.push_back(id);
  return jobs;
}

bool ShareController::PassOn(base::JobId job, base::ProcessId process, ledger::TransferDirection direction,
                             base::UntrustedSocket& connection) {
  Entry* const entry = Find(job);
  if (!entry || entry->mode == Entry::Mode::kWithdrawn) return false;
  if (direction == ledger::TransferDirection::kOut)
    evictions_.Take(entry->job, process, std::move(connection));
  else
    restores_.Give(entry->job, process, std::move(connection), [this, job] {
      if (Entry* const there = Find(job)) Check(*there);
    });
  return true;
}

void ShareController::OnSample() {
  Reconcile();
  SetCapacities();
  for (const auto id : Jobs())
    if (Entry* const entry = Find(id)) Check(*entry);
  SetTimers();
}

}  // namespace gpuman::daemon
