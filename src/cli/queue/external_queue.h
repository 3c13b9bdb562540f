// The queue of another scheduler: the commands of the queue take its jobs beside those of this machine. A
// scheduler implements both interfaces in src/cli/compat. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/json.h"
#include "api/queue_client.h"
#include "cli/command_context.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

struct MadeSubmission;

struct LogSettings {
  bool follow = false;
  std::optional<int> first, last;  // lines
};

// One job there. Functions that return an exit status have printed the result.
class ExternalJobHandle {
 public:
  virtual ~ExternalJobHandle() = default;

  virtual std::string Name() const = 0;
  // `first`: nothing was shown before it; else an empty line separates it.
  virtual base::Result<int> Show(bool first) = 0;
  virtual base::Result<int> Log(const LogSettings& settings) = 0;
  virtual base::Result<int> Attach() = 0;
  virtual base::Result<int> Wait() = 0;
  virtual base::Result<int> Hold() = 0;
  // `at`: the job starts no earlier.
  virtual base::Result<int> Release(std::optional<base::WallTime> at) = 0;
  // The state before. Prints nothing. `dry_run`: only looks whether the job can be cancelled.
  virtual base::Result<spec::JobState> Cancel(bool dry_run) = 0;
  // Why `job update` and `job redo` do not take the job, and what to use instead.
  virtual base::Error RefuseUpdate() const = 0;
  virtual base::Error RefuseRedo() const = 0;
};

struct ExternalQueueListing {
  api::Json json;
  std::string table;  // with its title; empty: there are no jobs
};

class ExternalQueue {
 public:
  virtual ~ExternalQueue() = default;

  // The name of this queue in the JSON of the list.
  virtual std::string_view Name() const = 0;
  // The job that the word names; nullptr: the word is not a name of a job there. Does not ask whether there
  // is such a job. `session` must outlive the result.
  virtual std::unique_ptr<ExternalJobHandle> Find(CommandContext& session, const std::string& word) const = 0;
  // Submits the jobs and prints them, or waits for them; returns the exit status.
  virtual base::Result<int> Submit(CommandContext& session, const MadeSubmission& made,
                                   const CommandDialect& dialect) const = 0;
  // Whether the list needs no daemon: where the user has jobs there, gpuman starts no daemon only to show an
  // empty queue.
  virtual bool ServesAlone(const CommandContext& session) const = 0;
  // The jobs that the filter chooses; nullopt: the user has none there that it could choose. Only prints a
  // note where the other queue does not answer.
  virtual std::optional<ExternalQueueListing> List(CommandContext& session,
                                                   const api::QueueFilter& filter) const = 0;
};

}  // namespace gpuman::cli::queue
