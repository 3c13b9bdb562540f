// The life of a job as a state machine: (job, event) -> (job, what to do about it).
//
//   queued <--> held     a job of the queue waits for its start; CancelAsked makes either of them cancelled
//     | ^
//     | +------ a retry, more memory, or it made room for another ----------+
//     StartOrdered                                                          |
//     v                                                                     |
//   starting --RunStarted--> running --order--> stopping --RunEnded--> … --JobEnded--> finished failed killed
//       ^                       |                                  |                   cancelled timeout
//       +----RestartScheduled---+----------------------------------+
//
// Pure: no clock, no I/O. The keeper's journal decides what happened to the command. Each record is applied
// exactly once (Job::journal_seq), in order, however often the journal is read again. The table in
// lifecycle_test.cc reads as the specification.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "jobs/accounting.h"
#include "jobs/job.h"
#include "jobs/kernel_kill.h"
#include "keeper/journal.h"

namespace gpuman::jobs {

// A record of the job's journal; a record that was applied before changes nothing.
struct RecordReceived {
  keeper::JournalRecord record;
  std::optional<KernelKill> kill{};  // what ended the run, where IsUnexplainedFailure asks
};

// The owner or an administrator ordered the end. `remove`: forget the job when it has ended.
struct StopAsked {
  keeper::EndReason reason;
  bool remove = false;
  base::WallTime at{};
};

// The owner or an administrator ordered a new run. A job that has ended begins a new incarnation.
struct RestartAsked {
  keeper::EndReason reason;
  base::WallTime at;
};

// The guard is about to end the run (limit, pressure). The restart policy applies afterwards.
struct GuardOrdered {
  keeper::EndReason reason;
};

// The keeper refused the guard's order: there is no run to which it applies. `before`: the job's state before
// the order.
struct GuardOrderRefused {
  keeper::EndReason reason;
  JobState before{};
  std::optional<keeper::EndReason> before_reason{};
};

// No keeper could be started for the job; no process of it runs.
struct CannotStart {
  std::string message;
  base::WallTime at;
};

// The job has lost records of what its keepers did, and no keeper goes on with it. What they left is ended;
// nothing is run again, whatever the restart policy and the retries say.
struct RecordsLost {
  std::string message;
  base::WallTime at;
};

// The processes that an attached job's root started are gone. `another_boot`: the machine was rebooted
// meanwhile.
struct RootEnded {
  bool another_boot = false;
  base::WallTime at{};
};

// The other events are for jobs of the queue; in a state that does not fit they change nothing.

// The first event holds a waiting job, the second releases it.
struct HoldAsked {
  keeper::EndReason reason;
};
struct ReleaseAsked {};

// The owner does not want the job any more, or the job waits for something that cannot happen. A running job
// is ended.
struct CancelAsked {
  keeper::EndReason reason;
  base::WallTime at;
};

// The job's turn has come, on these GPUs (UUIDs; none: it uses none).
struct StartOrdered {
  std::vector<std::string> gpus;
};

// The job makes room: its run is ended, and it waits again. That does not count as a retry.
struct RequeueAsked {
  keeper::EndReason reason;
};

using JobEvent =
    std::variant<RecordReceived, StopAsked, RestartAsked, GuardOrdered, GuardOrderRefused, CannotStart,
                 RecordsLost, RootEnded, HoldAsked, ReleaseAsked, CancelAsked, StartOrdered, RequeueAsked>;

// An event for people: the store keeps it, `gpuman events` shows it.
struct JobNotice {
  std::string kind;  // job_started, job_restarting, job_finished, job_failed, job_killed, …
  std::string message;
  std::map<std::string, std::int64_t> data{};
  friend bool operator==(const JobNotice&, const JobNotice&) = default;
};

enum class Effect {
  kLaunch,        // prepare the job's directory (of this incarnation) and start a keeper
  kOrderStop,     // tell the keeper to stop the job for good
  kOrderRestart,  // tell the keeper to start a new run
  kForget,        // the job has ended and was to be removed: delete the record and the directory
};

struct Transition {
  Job job;
  bool changed = false;  // store it
  std::vector<Effect> effects{};
  std::vector<JobNotice> notices{};
  std::optional<RunAccount> run{};  // of a run that has ended
};

Transition Apply(const Job& job, const JobEvent& event);

// Whether the record tells of a run that failed by SIGKILL or by an exit status, and nobody of gpuman ordered
// that.
bool IsUnexplainedFailure(const Job& job, const keeper::JournalRecord& record);

// Whether the job's last run failed without an order, maybe because it was refused memory.
bool FailedByItself(const Job& job);

// Returns the memory that a run which ended then would have used with the allocation that its limit refused.
// nullopt: the run did not fail by itself, or not because of such a refusal.
std::optional<base::Bytes> NeededMemory(const Job& job, base::WallTime ended);

// The account name of a job's runs: its tag. A task uses its array's tag; a job without a name uses its
// program or script.
std::string AccountName(const Job& job);
// The name of the program, without its folder; for an interpreter, the script or module if the command names
// one.
std::string ProgramName(const std::vector<std::string>& command);
// Whether a program may run anything (sh, python3, torchrun): its name says nothing of what ran.
bool IsInterpreter(std::string_view program);

// The reason for a command that could not be executed.
keeper::EndReason ReasonOf(const keeper::StartFailed& failure);

}  // namespace gpuman::jobs
