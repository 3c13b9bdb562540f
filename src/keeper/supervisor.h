// The keeper's loop: performs what the state machine (state_machine.h) decides and tells it what happens. One
// thread; it sleeps in epoll until something happens, so an idle keeper costs no time.
//
// The order within one turn keeps the records right: the supervisor first looks whether the main process has
// ended, then reads the control socket to its end, and only then handles the end. The supervisor has
// therefore always read a reason that was announced before a signal when it records the end that the signal
// caused.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/result.h"
#include "keeper/control_server.h"
#include "keeper/journal_writer.h"
#include "keeper/launch.h"
#include "keeper/output_log.h"
#include "keeper/process_tree.h"
#include "keeper/spec.h"
#include "keeper/state_machine.h"

namespace gpuman::keeper {

// The parts that a supervisor is made from; all exist before the first command does.
struct KeeperResources {
  std::filesystem::path job_dir;
  Spec spec;
  JournalWriter journal;
  OutputLog log;
  ControlServer control;
  ProcessTree tree;  // with this process as the keeper
  std::string key;
  base::Fd epoll;
  base::Fd signals;  // signalfd: SIGCHLD and the signals that tell the keeper to end
  base::Fd output;   // read end of the pipe that is every run's stdout and stderr
  base::Fd output_in;
  std::vector<std::string> notes;  // for the first run: the steps that failed
  bool memory_held = false;        // the cgroup limits the host memory
  bool pin_processors = false;     // nothing but affinity limits the processors
};

class Supervisor {
 public:
  Supervisor(KeeperResources resources, const base::Clock& clock, const base::ProcessTable& table);

  // Returns when the job has ended, or the keeper was told to leave. `history`: the content of the journal.
  void Run(const JobHistory& history, bool same_boot);

 private:
  void Turn();
  int WaitTime() const;

  void Perform(const Actions& actions);
  void Perform(const action::Launch& launch);
  void Perform(const action::Append& append);
  void Perform(const action::SignalMain& order);
  void Perform(const action::SignalTree& order);
  void Perform(const action::KillTree& order);
  void Perform(const action::LogNote& note);
  void Perform(const action::Leave& leave);

  void FlushJournal();
  // Removes from the journal the records that the daemon has stored, as soon as no child may write to the
  // journal.
  base::Result<> ShortenJournal();
  void StartLaunch();
  void PollLaunch();
  StartFailed DiedOnTheWay(pid_t pid) const;

  base::Result<> OnCommand(const Command& command, base::Fd file);
  KeeperHello State() const;
  void DrainControl();
  bool MainHasEnded() const;
  void ReapMain();
  void HoldMemory();
  std::optional<EndReason> CauseOf(const MainEnd& end) const;
  // Reaps adopted children; true when no child is left.
  bool ReapOthers();
  void DrainSignals();
  // True when everything written so far has been read.
  bool ReadOutput();

  KeeperResources resources_;
  const base::Clock& clock_;
  const base::ProcessTable& table_;
  RunStateMachine machine_;

  std::optional<LaunchingProcess> launching_;
  pid_t main_ = 0;  // child that runs the command; 0: none
  std::optional<RunNumber> to_launch_;
  std::optional<std::uint64_t> stored_;  // up to here the daemon has stored the records
  base::Fd held_;                        // of the last HoldFile
  bool leaving_ = false;
  bool turn_again_ = false;
  std::uint64_t memory_kills_ = 0;          // ends by the limit of host memory, before this run
  std::optional<base::MonoTime> retry_at_;  // for a journal that could not be written
};

}  // namespace gpuman::keeper
