// Decides what a keeper does next: the life of one job as a state machine. Pure: events and times go in,
// actions come out.
//
// An order (OnCommand) is carried out, kept or refused. One that arrives while the command is on its way to
// execve is kept until the command runs: a client that reads the journal may know of the run before its
// keeper does.
//
// The states are those of protocol.h's KeeperPhase. The supervisor (supervisor.h) performs the actions in
// order and feeds back what happens. It performs Launch after everything appended before it is on disk.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "keeper/journal.h"
#include "keeper/protocol.h"
#include "keeper/run_clock.h"
#include "keeper/spec.h"

namespace gpuman::keeper {

namespace action {
struct Launch {
  RunNumber run = 0;
  friend bool operator==(const Launch&, const Launch&) = default;
};
struct Append {
  RecordBody body;
  friend bool operator==(const Append&, const Append&) = default;
};
struct SignalMain {
  int signal = 0;
  friend bool operator==(const SignalMain&, const SignalMain&) = default;
};
struct SignalTree {
  int signal = 0;
  friend bool operator==(const SignalTree&, const SignalTree&) = default;
};
struct KillTree {
  friend bool operator==(const KillTree&, const KillTree&) = default;
};
// A line in the job's log.
struct LogNote {
  std::string text;
  friend bool operator==(const LogNote&, const LogNote&) = default;
};
// Leave, once everything appended is on disk. The phase is kEnded when the job is over; otherwise the keeper
// ends at a shutdown, and a later one goes on.
struct Leave {
  friend bool operator==(const Leave&, const Leave&) = default;
};
}  // namespace action
using Action = std::variant<action::Launch, action::Append, action::SignalMain, action::SignalTree,
                            action::KillTree, action::LogNote, action::Leave>;
using Actions = std::vector<Action>;

// The end of a run's main process as the kernel reports it.
struct MainEnd {
  EndKind kind = EndKind::kExited;
  int code = 0;
  bool core_dumped = false;
  RunResourceUsage usage;
  std::optional<EndReason> cause{};  // the status alone does not show it; counts unless the end was ordered
};

class RunStateMachine {
 public:
  explicit RunStateMachine(const Spec& spec);

  // First call: goes on where the journal stops. `same_boot`: the last keeper ran in this boot.
  Actions Begin(const JobHistory& history, bool same_boot, base::MonoTime now);

  // The answer to Launch: one of these two.
  Actions OnLaunched(const RunStarted& started, base::MonoTime now);
  Actions OnLaunchFailed(const StartFailed& failed, base::MonoTime now);

  // `tree_empty`: no process of the job is left.
  Actions OnMainEnded(const MainEnd& end, bool tree_empty, base::MonoTime now);
  Actions OnTreeEmpty(base::MonoTime now);

  Actions OnTime(base::MonoTime now);
  // The keeper itself was told to end (SIGTERM): the machine shuts down.
  Actions OnShutdown(base::MonoTime now);

  // Errors are kConflict: the command does not fit the state.
  base::Result<Actions> OnCommand(const Command& command, base::MonoTime now);

  // When OnTime is due; empty: never.
  std::optional<base::MonoTime> deadline() const;
  KeeperPhase phase() const { return phase_; }
  RunNumber run() const { return run_; }
  // No further run begins. A run whose Launch was not performed yet needs no Launch: OnLaunchFailed ends the
  // run.
  bool stop_ordered() const { return stop_; }
  const std::optional<base::ProcessId>& process() const { return process_; }

  // Changes the settings without actions: for settings that were in force before this keeper.
  void ApplySettings(const UpdateSettings& settings, base::MonoTime now = {});

 private:
  bool MainMayLive() const;
  // A run is under way, and the keeper knows its processes.
  bool HasTree() const;
  // Carries out the orders for this run that came before the keeper knew that the run had started.
  void CarryOutKept(Actions& actions, base::MonoTime now);
  void ForgetKept();
  base::Result<Actions> Handle(const SetEndReason& command, base::MonoTime now);
  base::Result<Actions> Handle(const StopJob& command, base::MonoTime now);
  base::Result<Actions> Handle(const RestartJob& command, base::MonoTime now);
  base::Result<Actions> Handle(const UpdateSettings& command, base::MonoTime now);
  base::Result<Actions> Handle(const SendSignalTo& command, base::MonoTime now);
  base::Result<Actions> Handle(const SetClockPaused& command, base::MonoTime now);
  base::Result<Actions> Handle(const WriteLogNote& command, base::MonoTime now);
  base::Result<Actions> Handle(const RecordsStored& command, base::MonoTime now);
  base::Result<Actions> Handle(const HoldFile& command, base::MonoTime now);
  bool ClockCounts() const;
  // Acts on the time limit.
  void CheckClock(Actions& actions, base::MonoTime now);

  // Begins the end of all processes that live, or makes it sooner: signal now, SIGKILL after the grace.
  void EndTree(Actions& actions, std::optional<int> signal, std::optional<base::Millis> grace,
               base::MonoTime now);
  // The run is over and no process of it is left: restart, wait or end.
  void AfterRun(Actions& actions, base::MonoTime now);
  void StartNext(Actions& actions, base::Millis delay, std::uint32_t in_a_row,
                 std::optional<EndReason> ordered, base::MonoTime now);
  void Launch(Actions& actions);
  void Finish(Actions& actions, std::string why);
  void Expect(std::optional<EndReason> reason);

  RestartPolicy restart_;
  int stop_signal_;
  base::Millis stop_grace_;
  LeftoverPolicy leftovers_;
  RunClock clock_;

  KeeperPhase phase_ = KeeperPhase::kWaiting;
  RunNumber run_ = 0;
  std::optional<base::ProcessId> process_;
  base::MonoTime run_began_{};
  RunOutcome outcome_{};  // of the run that ended last
  bool ever_ran_ = false;
  std::uint32_t in_a_row_ = 0;
  std::optional<base::MonoTime> deadline_;

  std::optional<EndReason> expected_;  // why the current run is about to end
  bool final_ = false;                 // no restart follows
  bool stop_ = false;
  bool shutdown_ = false;
  std::optional<EndReason> restart_order_;

  // Orders for this run that came while launching: OnLaunched carries them out.
  struct Kept {
    std::optional<int> end_signal{};
    bool clock_paused = false;
    std::vector<SendSignalTo> signals{};  // each once: the kernel too keeps one of a pending signal
  };
  Kept kept_;
};

}  // namespace gpuman::keeper
