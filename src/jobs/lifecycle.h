// The life of a job as a state machine: (job, what happened) -> (job, what to do about it).
//
//   queued <--> held                    a job of the queue waits for its start; either --CancelAsked-->
//   cancelled
//     | ^
//     | +-------------- a retry, or it made room for another ---------------+
//     StartOrdered                                                          |
//     v                                                                     |
//   starting --RunStarted--> running --order--> stopping --RunEnded--> … --JobEnded--> finished failed killed
//       ^                       |                                  |                   cancelled timeout
//       +----RestartScheduled---+----------------------------------+
//
// Pure: no clock, no I/O. The keeper's journal is the authority on what happened to the command; each record
// is applied exactly once (Job::journal_seq), in order, however often the journal is read again. The table in
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
#include "keeper/journal.h"

namespace gpuman::jobs {

// A record of the job's journal; one that was applied before changes nothing.
struct Recorded {
  keeper::JournalRecord record;
};

// The owner or an administrator asked for the end. `remove`: forget the job once it has ended.
struct StopAsked {
  keeper::Reason reason;
  bool remove = false;
  base::WallTime at{};
};

// The owner or an administrator asked for a new run. A job that has ended begins a new incarnation.
struct RestartAsked {
  keeper::Reason reason;
  base::WallTime at;
};

// The guard is about to end the run (the limit, pressure). The restart policy applies afterwards.
struct GuardOrdered {
  keeper::Reason reason;
};

// And the keeper did not take that: there is no run that it could mean. `before`: what the job was then.
struct GuardRefused {
  keeper::Reason reason;
  JobState before{};
  std::optional<keeper::Reason> before_reason{};
};

// No keeper could be started for the job; nothing of it runs.
struct CannotStart {
  std::string message;
  base::WallTime at;
};

// What an attached job's root started is gone, with it or by us. `another_boot`: so is the machine's memory
// of it.
struct RootEnded {
  bool another_boot = false;
  base::WallTime at{};
};

// The rest happens to jobs of the queue; to a job that is not in a state for it, nothing does.

// A waiting job waits until it is released, and it is released.
struct HoldAsked {
  keeper::Reason reason;
};
struct ReleaseAsked {};

// Its owner does not want it any more, or what it waits for cannot come true. One that runs is ended.
struct CancelAsked {
  keeper::Reason reason;
  base::WallTime at;
};

// Its turn has come, on these GPUs (UUIDs; none: it uses none).
struct StartOrdered {
  std::vector<std::string> gpus;
};

// It makes room: its run is ended, and it waits again. That counts for no retry.
struct RequeueAsked {
  keeper::Reason reason;
};

using JobEvent = std::variant<Recorded, StopAsked, RestartAsked, GuardOrdered, GuardRefused, CannotStart,
                              RootEnded, HoldAsked, ReleaseAsked, CancelAsked, StartOrdered, RequeueAsked>;

// What is worth telling people: stored, shown by `gpuman events`.
struct Notice {
  std::string kind;  // job_started, job_restarting, job_finished, job_failed, job_killed, …
  std::string message;
  std::map<std::string, std::int64_t> data{};
  friend bool operator==(const Notice&, const Notice&) = default;
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
  std::vector<Notice> notices{};
  std::optional<RunAccount> run{};  // one has ended
};

Transition Apply(const Job& job, const JobEvent& event);

// Word and sentence for a command that could not be executed.
keeper::Reason ReasonOf(const keeper::StartFailed& failure);

}  // namespace gpuman::jobs
