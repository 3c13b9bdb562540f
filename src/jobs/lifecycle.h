// The life of a job as a state machine: (job, what happened) -> (job, what to do about it).
//
//   starting --RunStarted--> running --order--> stopping --RunEnded--> … --JobEnded--> finished failed killed
//       ^                       |                                  |
//       +----RestartScheduled---+----------------------------------+
//
// Pure: no clock, no I/O. The keeper's journal is the authority on what happened to the command; each record
// is applied exactly once (Job::journal_seq), in order, however often the journal is read again. The table in
// lifecycle_test.cc reads as the specification.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "jobs/job.h"
#include "keeper/journal.h"

namespace gpuman::jobs {

// A record of the job's journal; one that was applied before changes nothing.
struct Recorded {
  keeper::Record record;
};

// The owner or an administrator asked for the end. `remove`: forget the job once it has ended.
struct StopAsked {
  keeper::Reason reason;
  bool remove = false;
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

// No keeper could be started for the job; nothing of it runs.
struct CannotStart {
  std::string message;
  base::WallTime at;
};

using JobEvent = std::variant<Recorded, StopAsked, RestartAsked, GuardOrdered, CannotStart>;

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
};

Transition Apply(const Job& job, const JobEvent& event);

// Word and sentence for a command that could not be executed.
keeper::Reason ReasonOf(const keeper::StartFailed& failure);

}  // namespace gpuman::jobs
