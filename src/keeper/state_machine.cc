#include "keeper/state_machine.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

namespace gpuman::keeper {
namespace {

using base::MonoTime;

// After the grace the kill is repeated at this interval, for processes that the kernel was slow to end.
constexpr base::Millis kKillAgain{1000};

auto Conflict(std::string message) { return base::Fail(base::ErrorCode::kConflict, std::move(message)); }

constexpr const char* kShutdownWord = "shutdown";

EndReason LostReason(bool same_boot) {
  return same_boot ? EndReason{"keeper_lost", "the keeper of this job was killed; nobody saw the exit status"}
                   : EndReason{"machine_restarted", "the machine went down while the job ran"};
}

bool WasShutDown(const JobHistory& history) {
  return history.ended && history.ended->ordered && history.ended->ordered->word == kShutdownWord;
}

}  // namespace

RunStateMachine::RunStateMachine(const Spec& spec)
    : restart_(spec.restart),
      stop_signal_(spec.stop_signal),
      stop_grace_(spec.stop_grace),
      leftovers_(spec.leftovers),
      clock_(spec.time_limit) {}

void RunStateMachine::ApplySettings(const UpdateSettings& settings, MonoTime now) {
  if (settings.time_limit) clock_.SetLimit(*settings.time_limit, now);
  if (settings.restart) restart_ = *settings.restart;
  if (settings.stop_grace) stop_grace_ = *settings.stop_grace;
}

Actions RunStateMachine::Begin(const JobHistory& history, bool same_boot, MonoTime now) {
  Actions actions;
  run_ = history.last_run;
  ever_ran_ = history.runs > 0;
  in_a_row_ = history.in_a_row;
  stop_ = history.stop.has_value();
  if (history.restart_ordered && !stop_) restart_order_ = history.restart_ordered->reason;
  if (history.run_open) {
    RunEnded unknown;
    unknown.run = run_;
    unknown.ordered = history.stop ? history.stop->reason : restart_order_.value_or(LostReason(same_boot));
    actions.emplace_back(action::Append{std::move(unknown)});
    outcome_ = {};
    AfterRun(actions, now);
  } else if (history.restart && restart_order_) {
    StartNext(actions, base::Millis{0}, 0, std::exchange(restart_order_, std::nullopt), now);
  } else if (history.restart && !stop_ && !history.restart->ordered && restart_.mode == RestartMode::kNo) {
    Finish(actions, "finished");
  } else if (history.restart && !stop_) {
    phase_ = KeeperPhase::kWaiting;
    deadline_ = now + history.restart->delay;
    if (history.restart->delay.count() == 0) Launch(actions);
  } else if (WasShutDown(history) && !stop_ && restart_.mode != RestartMode::kNo) {
    StartNext(actions, base::Millis{0}, in_a_row_, history.ended->ordered, now);
  } else if (run_ > 0 || stop_) {
    if (history.ended)
      outcome_ = {history.ended->kind == EndKind::kExited && history.ended->code == 0, history.ended->lasted};
    AfterRun(actions, now);
  } else {
    Launch(actions);
  }
  return actions;
}

Actions RunStateMachine::OnLaunched(const RunStarted& started, MonoTime now) {
  Actions actions;
  ever_ran_ = true;
  process_ = started.process;
  run_began_ = now;
  phase_ = KeeperPhase::kRunning;
  clock_.Start(now);
  CarryOutKept(actions, now);
  return actions;
}

void RunStateMachine::CarryOutKept(Actions& actions, MonoTime now) {
  if (kept_.clock_paused) {
    clock_.Pause(true, now);
    actions.emplace_back(action::Append{ClockPauseChanged{true}});
  }
  for (const auto& order : kept_.signals) {
    if (order.tree)
      actions.emplace_back(action::SignalTree{order.signal});
    else
      actions.emplace_back(action::SignalMain{order.signal});
  }
  const auto end_signal = kept_.end_signal;
  ForgetKept();
  if (!stop_ && !shutdown_ && !restart_order_) return;
  // The grace began when the end was ordered.
  phase_ = KeeperPhase::kStopping;
  if (deadline_ && now >= *deadline_)
    actions.emplace_back(action::KillTree{});
  else
    actions.emplace_back(action::SignalTree{end_signal.value_or(stop_signal_)});
}

void RunStateMachine::ForgetKept() { kept_ = {}; }

Actions RunStateMachine::OnLaunchFailed(const StartFailed& failed, MonoTime now) {
  Actions actions;
  actions.emplace_back(action::Append{failed});
  actions.emplace_back(action::LogNote{failed.message});
  outcome_ = {};
  AfterRun(actions, now);
  return actions;
}

Actions RunStateMachine::OnMainEnded(const MainEnd& end, bool tree_empty, MonoTime now) {
  Actions actions;
  const auto lasted = std::chrono::duration_cast<base::Millis>(now - run_began_);
  actions.emplace_back(action::Append{RunEnded{.run = run_,
                                               .kind = end.kind,
                                               .code = end.code,
                                               .core_dumped = end.core_dumped,
                                               .lasted = lasted,
                                               .usage = end.usage,
                                               .ordered = expected_ ? expected_ : end.cause}});
  outcome_ = {end.kind == EndKind::kExited && end.code == 0, lasted};
  if (!expected_ && end.cause) actions.emplace_back(action::LogNote{end.cause->detail});
  process_.reset();
  if (tree_empty) {
    AfterRun(actions, now);
  } else if (phase_ != KeeperPhase::kStopping) {
    phase_ = KeeperPhase::kLeftovers;
    if (leftovers_ == LeftoverPolicy::kEnd) EndTree(actions, SIGTERM, std::nullopt, now);
    phase_ = KeeperPhase::kLeftovers;
  }
  return actions;
}

Actions RunStateMachine::OnTreeEmpty(MonoTime now) {
  Actions actions;
  const bool waits_for_tree = phase_ == KeeperPhase::kLeftovers || phase_ == KeeperPhase::kStopping;
  if (waits_for_tree && !process_) AfterRun(actions, now);
  return actions;
}

Actions RunStateMachine::OnTime(MonoTime now) {
  Actions actions;
  CheckClock(actions, now);
  if (!deadline_ || now < *deadline_) return actions;
  if (phase_ == KeeperPhase::kWaiting) {
    Launch(actions);
  } else {
    actions.emplace_back(action::KillTree{});
    deadline_ = now + kKillAgain;
  }
  return actions;
}

std::optional<MonoTime> RunStateMachine::deadline() const {
  const auto due = ClockCounts() ? clock_.Due() : std::nullopt;
  if (!due || (deadline_ && *deadline_ < *due)) return deadline_;
  return due;
}

// The limit also holds for processes that outlive the command and for which the job waits.
bool RunStateMachine::ClockCounts() const {
  return phase_ == KeeperPhase::kRunning ||
         (phase_ == KeeperPhase::kLeftovers && leftovers_ == LeftoverPolicy::kWait);
}

void RunStateMachine::CheckClock(Actions& actions, MonoTime now) {
  if (!ClockCounts()) return;
  if (clock_.TakeWarning(now)) {
    const auto left = *clock_.limit().limit - clock_.Ran(now);
    actions.emplace_back(
        action::LogNote{fmt::format("the time limit is reached in {}: signal {}", base::FormatDuration(left),
                                    clock_.limit().warn_signal)});
    actions.emplace_back(action::SignalTree{clock_.limit().warn_signal});
  }
  if (!clock_.Expired(now)) return;
  const EndReason reason{
      "time_limit", fmt::format("its time limit of {} is over", base::FormatDuration(*clock_.limit().limit))};
  clock_.Stop();
  actions.emplace_back(action::LogNote{reason.detail});
  auto stop = Handle(StopJob{reason, std::nullopt, std::nullopt}, now);
  actions.insert(actions.end(), stop->begin(), stop->end());
}

Actions RunStateMachine::OnShutdown(MonoTime now) {
  Actions actions;
  if (shutdown_ || phase_ == KeeperPhase::kEnded) return actions;
  shutdown_ = true;
  if (phase_ == KeeperPhase::kWaiting) {
    deadline_.reset();
    actions.emplace_back(action::Leave{});
  } else {
    Expect(EndReason{kShutdownWord, "the keeper was told to end, as when the machine goes down"});
    EndTree(actions, std::nullopt, std::nullopt, now);
  }
  return actions;
}

base::Result<Actions> RunStateMachine::OnCommand(const Command& command, MonoTime now) {
  if (phase_ == KeeperPhase::kEnded) return Conflict("the job has ended");
  return std::visit([&](const auto& c) { return Handle(c, now); }, command);
}

base::Result<Actions> RunStateMachine::Handle(const SetEndReason& command, MonoTime) {
  if (command.run != 0 && command.run != run_)
    return Conflict(fmt::format("run {} is not the current one ({})", command.run, run_));
  if (!MainMayLive()) return Conflict("the command does not run");
  if (stop_ || restart_order_ || shutdown_) return Conflict("the run is being ended already");
  if (command.reason.word.empty()) {
    expected_.reset();
    final_ = false;
    return Actions{};
  }
  if (expected_) return Conflict("another reason was announced before");
  expected_ = command.reason;
  final_ = command.final;
  return Actions{};
}

base::Result<Actions> RunStateMachine::Handle(const StopJob& command, MonoTime now) {
  Actions actions;
  if (!stop_) actions.emplace_back(action::Append{StopOrdered{command.reason}});
  stop_ = true;
  restart_order_.reset();
  if (phase_ == KeeperPhase::kWaiting) {
    Finish(actions, "stopped");
    return actions;
  }
  Expect(command.reason);
  EndTree(actions, command.signal, command.grace, now);
  return actions;
}

base::Result<Actions> RunStateMachine::Handle(const RestartJob& command, MonoTime now) {
  if (stop_ || shutdown_) return Conflict("the job is being stopped");
  Actions actions;
  if (phase_ == KeeperPhase::kWaiting) {
    StartNext(actions, base::Millis{0}, 0, command.reason, now);
    return actions;
  }
  if (!restart_order_) actions.emplace_back(action::Append{RestartOrdered{command.reason}});
  restart_order_ = command.reason;
  final_ = false;
  Expect(command.reason);
  EndTree(actions, command.signal, command.grace, now);
  return actions;
}

base::Result<Actions> RunStateMachine::Handle(const UpdateSettings& command, MonoTime now) {
  Actions actions;
  actions.emplace_back(action::Append{JobSettingsChanged{SerializeSettings(command)}});
  ApplySettings(command, now);
  CheckClock(actions, now);
  if (phase_ == KeeperPhase::kWaiting && restart_.mode == RestartMode::kNo && !restart_order_)
    Finish(actions, "finished");
  return actions;
}

base::Result<Actions> RunStateMachine::Handle(const SendSignalTo& command, MonoTime) {
  Actions actions;
  if (phase_ == KeeperPhase::kLaunching) {
    const auto& kept = kept_.signals;
    if (std::find(kept.begin(), kept.end(), command) == kept.end()) kept_.signals.push_back(command);
    return actions;
  }
  if (command.tree ? !HasTree() : !process_) return Conflict("the command does not run");
  if (command.tree)
    actions.emplace_back(action::SignalTree{command.signal});
  else
    actions.emplace_back(action::SignalMain{command.signal});
  return actions;
}

base::Result<Actions> RunStateMachine::Handle(const SetClockPaused& command, MonoTime now) {
  Actions actions;
  if (phase_ == KeeperPhase::kLaunching) {
    kept_.clock_paused = command.paused;
    return actions;
  }
  if (!HasTree()) return Conflict("no run is under way");
  if (clock_.paused() == command.paused) return actions;
  CheckClock(actions, now);
  clock_.Pause(command.paused, now);
  actions.emplace_back(action::Append{ClockPauseChanged{command.paused}});
  return actions;
}

base::Result<Actions> RunStateMachine::Handle(const WriteLogNote& command, MonoTime) {
  Actions actions;
  actions.emplace_back(action::LogNote{command.text});
  return actions;
}

// This command concerns the journal's file alone.
base::Result<Actions> RunStateMachine::Handle(const RecordsStored&, MonoTime) { return Actions{}; }
base::Result<Actions> RunStateMachine::Handle(const HoldFile&, MonoTime) { return Actions{}; }

bool RunStateMachine::HasTree() const {
  return phase_ == KeeperPhase::kRunning || phase_ == KeeperPhase::kStopping ||
         phase_ == KeeperPhase::kLeftovers;
}

bool RunStateMachine::MainMayLive() const {
  return phase_ == KeeperPhase::kLaunching || process_.has_value();
}

void RunStateMachine::Expect(std::optional<EndReason> reason) {
  if (MainMayLive() && !expected_) expected_ = std::move(reason);
}

void RunStateMachine::EndTree(Actions& actions, std::optional<int> signal, std::optional<base::Millis> grace,
                              MonoTime now) {
  const MonoTime kill_at = now + grace.value_or(stop_grace_);
  const bool already = phase_ == KeeperPhase::kStopping;
  deadline_ = deadline_ ? std::min(*deadline_, kill_at) : kill_at;
  if (phase_ == KeeperPhase::kLaunching) {
    if (signal) kept_.end_signal = signal;
    return;
  }
  phase_ = KeeperPhase::kStopping;
  if (kill_at <= now) {
    actions.emplace_back(action::KillTree{});
    deadline_ = now + kKillAgain;
  } else if (!already || signal) {
    actions.emplace_back(action::SignalTree{signal.value_or(stop_signal_)});
  }
}

void RunStateMachine::AfterRun(Actions& actions, MonoTime now) {
  process_.reset();
  expected_.reset();
  deadline_.reset();
  ForgetKept();
  clock_.Stop();
  const bool final = std::exchange(final_, false);
  const auto order = std::exchange(restart_order_, std::nullopt);
  if (stop_) return Finish(actions, "stopped");
  // The keeper that comes after this one starts the next run; it finds the order in the journal.
  if (shutdown_ && (order || (restart_.mode != RestartMode::kNo && !final))) {
    restart_order_ = order;
    phase_ = KeeperPhase::kWaiting;
    actions.emplace_back(action::Leave{});
    return;
  }
  if (order) return StartNext(actions, base::Millis{0}, 0, order, now);
  if (!ever_ran_) return Finish(actions, "start_failed");
  if (final) return Finish(actions, "stopped");
  const auto decision = DecideRestart(restart_, in_a_row_, outcome_);
  switch (decision.verdict) {
    case RestartVerdict::kRestart:
      return StartNext(actions, decision.delay, decision.in_a_row, std::nullopt, now);
    case RestartVerdict::kNotWanted:
      return Finish(actions, "finished");
    case RestartVerdict::kExhausted:
      actions.emplace_back(
          action::LogNote{fmt::format("restarted {} times in a row; giving up", decision.in_a_row)});
      return Finish(actions, "restarts_exhausted");
  }
}

void RunStateMachine::StartNext(Actions& actions, base::Millis delay, std::uint32_t in_a_row,
                                std::optional<EndReason> ordered, MonoTime now) {
  in_a_row_ = in_a_row;
  actions.emplace_back(action::Append{RestartScheduled{run_ + 1, delay, in_a_row, std::move(ordered)}});
  if (delay.count() == 0) {
    actions.emplace_back(action::LogNote{"restarting"});
    return Launch(actions);
  }
  actions.emplace_back(action::LogNote{fmt::format("restarting in {}", base::FormatDuration(delay))});
  phase_ = KeeperPhase::kWaiting;
  deadline_ = now + delay;
}

void RunStateMachine::Launch(Actions& actions) {
  run_ += 1;
  deadline_.reset();
  phase_ = KeeperPhase::kLaunching;
  actions.emplace_back(action::Launch{run_});
}

void RunStateMachine::Finish(Actions& actions, std::string why) {
  phase_ = KeeperPhase::kEnded;
  deadline_.reset();
  actions.emplace_back(action::Append{JobEnded{run_, std::move(why)}});
  actions.emplace_back(action::Leave{});
}

}  // namespace gpuman::keeper
