// The daemon's side of a keeper: prepare a job's directory, start its keeper, talk to it.
//
// The journal (journal.h) decides what happened; the connection brings its records sooner and carries orders.
// A keeper is not the daemon's child: it detaches, and Receive shows its end as kUnavailable. The daemon then
// reads the journal: with a JobEnded the job is over, without one the keeper was killed. SpawnKeeper then
// starts a new keeper, which records the end (status unknown), kills what is left and goes on by the restart
// policy. Spawning is always safe: a second keeper of a living job and the keeper of an ended job exit
// without doing anything.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "keeper/journal.h"
#include "keeper/protocol.h"
#include "keeper/spec.h"

namespace gpuman::keeper {

// Makes `job_dir` (0700; its parent must exist) with spec.json and an empty journal, all synced to disk. May
// be repeated until a keeper was started; after that it returns kAlreadyExists.
base::Result<> PrepareJob(const std::filesystem::path& job_dir, const Spec& spec);

// The spec of a prepared job.
base::Result<Spec> ReadSpec(const std::filesystem::path& job_dir);

struct KeeperSpawnOptions {
  std::filesystem::path program;  // gpuman-keeper
  std::filesystem::path job_dir;
  std::uint64_t known_records = 0;  // the newest record of the job that the caller has seen
  base::Millis timeout{10'000};
};
enum class KeeperSpawnOutcome { kStarted, kAlreadyRunning, kAlreadyEnded };
// Exit statuses of gpuman-keeper when it has detached or found nothing to do. With any other, its stderr says
// why.
inline constexpr int kExitStarted = 0;
inline constexpr int kExitAlreadyRunning = 10;
inline constexpr int kExitAlreadyEnded = 11;
inline constexpr int kExitDamaged = 12;  // stderr says what

// Blocks for some milliseconds, until the keeper listens on its control socket (it starts the command right
// after). kCorrupt: the journal has lost records, so a keeper will never go on with this job; what earlier
// keepers had left is ended. Thread-safe; for a worker thread. The caller must not reap children it did not
// start (waitpid(-1)).
base::Result<KeeperSpawnOutcome> SpawnKeeper(const KeeperSpawnOptions& options);

// The bytes of the file that the job's keeper held (HoldFile), as they were at the end of its last run.
// kNotFound: the run goes on, or the keeper held none.
base::Result<std::string> ReadSavedHeld(const std::filesystem::path& job_dir);

// True while a keeper (or its child on the way to execve) holds the job's lock.
bool KeeperLives(const std::filesystem::path& job_dir);

// One connection; not thread-safe, never blocks.
class KeeperConnection {
 public:
  // kUnavailable when no keeper listens. `job_dir` may be of any length.
  static base::Result<KeeperConnection> Connect(const std::filesystem::path& job_dir);

  // Readable when Receive has something to return.
  int fd() const { return fd_.get(); }

  // The next message; nullopt: none yet. kUnavailable: the keeper is gone, or has closed this connection
  // because its packets were not read. The caller then reads the journal, and connects again if a keeper
  // lives. Messages that this version does not know are skipped.
  base::Result<std::optional<KeeperMessage>> Receive();

  // Hands the command over before it returns: the keeper handles a signal that is sent afterwards after it.
  // Returns the id that the reply will have. `file`: a descriptor that goes with the command; -1: none; the
  // caller keeps its own. kUnavailable as above.
  base::Result<std::uint64_t> Send(Command command, int file = -1);

 private:
  explicit KeeperConnection(base::Fd fd) : fd_(std::move(fd)) {}
  base::Fd fd_;
  std::uint64_t next_id_ = 1;
};

}  // namespace gpuman::keeper
