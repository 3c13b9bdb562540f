// The keeper's loop: performs what the machine (state_machine.h) decides and tells it what happens. One
// thread; it sleeps in epoll until something happens, so an idle keeper costs no time.
//
// Order within one turn is what keeps the books right: whether the main process has ended is looked at first,
// then the control socket is read to its end, and only then the end is handled. A reason announced before a
// signal was sent has therefore always been read when the end that the signal caused is written down.
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

// What a supervisor is made from; every part is there before the first command is.
struct KeeperResources {
  std::filesystem::path job_dir;
  Spec spec;
  JournalWriter journal;
  OutputLog log;
  ControlServer control;
  ProcessTree tree;  // with this process as the keeper
  std::string key;
  base::Fd epoll;
  base::Fd signals;  // signalfd: SIGCHLD and what tells the keeper to end
  base::Fd output;   // read end of the pipe that is every run's stdout and stderr
  base::Fd output_in;
  std::vector<std::string> notes;  // for the first run: what could not be had
  bool memory_held = false;        // the cgroup limits the host memory
  bool pin_processors = false;     // nothing but affinity limits the processors
};

class Supervisor {
 public:
  Supervisor(KeeperResources resources, const base::Clock& clock, const base::ProcessTable& table);

  // Returns when the job has ended, or the keeper was told to leave. `history`: what the journal held.
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
  void Perform(const action::Note& note);
  void Perform(const action::Leave& leave);

  void FlushJournal();
  // Of what the daemon has stored, as soon as no child may write to it.
  base::Result<> ShortenJournal();
  void StartLaunch();
  void PollLaunch();
  StartFailed DiedOnTheWay(pid_t pid) const;

  base::Result<> OnCommand(const Command& command);
  Hello State() const;
  void DrainControl();
  bool MainHasEnded() const;
  void ReapMain();
  void HoldMemory();
  std::optional<Reason> CauseOf(const MainEnd& end) const;
  // Reaps adopted children; true when no child is left at all.
  bool ReapOthers();
  void DrainSignals();
  // True when everything written so far has been read.
  bool ReadOutput();

  KeeperResources resources_;
  const base::Clock& clock_;
  const base::ProcessTable& table_;
  RunStateMachine machine_;

  std::optional<Launching> launching_;
  pid_t main_ = 0;  // child that runs the command; 0: none
  std::optional<RunNumber> to_launch_;
  std::optional<std::uint64_t> stored_;  // by the daemon: what the journal is to be shortened by
  bool leaving_ = false;
  bool turn_again_ = false;
  std::uint64_t memory_kills_ = 0;          // by the limit of host memory, before this run
  std::optional<base::MonoTime> retry_at_;  // for a journal that could not be written
};

}  // namespace gpuman::keeper
