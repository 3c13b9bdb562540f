// What happened to a job, as its keeper wrote it down: STATE/jobs/ID/journal.
//
// Text, one record a line, appended to: 8 hex digits of CRC-32C, a space, JSON, a newline. A record that
// could not be trusted to a line (torn by a crash, altered) ends the readable part. docs/keeper.md has every
// field. The reader takes no lock and may read while a keeper writes. Old records go when a daemon has them
// in its store, so that a job that is restarted for years has no journal of years. Values; thread-compatible.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "base/result.h"
#include "base/units.h"

namespace gpuman::keeper {

using RunNumber = std::uint32_t;  // 1, 2, …; a run that failed to start uses up its number

// Why an end was ordered: a word for programs (`memory_limit`, `stopped`, …), a sentence for people.
struct Reason {
  std::string word;
  std::string detail;
  friend bool operator==(const Reason&, const Reason&) = default;
};

// A keeper took charge. More than one: the earlier ones were killed or told to end with the machine.
struct KeeperStarted {
  base::ProcessId keeper;
  std::string boot_id;           // process ids mean something only within one boot
  std::filesystem::path cgroup;  // the job's own cgroup; empty: none
  std::string key;               // value of GPUMAN_JOB_KEY in the environment of every process of the job
  std::string program_version;
  friend bool operator==(const KeeperStarted&, const KeeperStarted&) = default;
};

// Written and synced by the job's own process, after all set-up, just before execve.
struct RunStarted {
  RunNumber run = 0;
  base::ProcessId process;
  std::vector<std::string> notes;  // limits that could not be set and the like
  friend bool operator==(const RunStarted&, const RunStarted&) = default;
};

// The command was not executed. May follow the RunStarted of the same run, when only execve itself failed.
struct StartFailed {
  RunNumber run = 0;
  std::string stage;     // "command", "directory", "user", "exec", …
  int error_number = 0;  // errno; 0 where there is none
  std::string message;   // a sentence
  friend bool operator==(const StartFailed&, const StartFailed&) = default;
};

enum class EndKind { kExited, kSignalled, kUnknown };

struct Usage {
  std::chrono::microseconds user_cpu{0};
  std::chrono::microseconds system_cpu{0};
  base::Bytes max_rss{0};
  friend bool operator==(const Usage&, const Usage&) = default;
};

// The main process of the run ended; its children may live on until the record that follows.
struct RunEnded {
  RunNumber run = 0;
  EndKind kind = EndKind::kUnknown;  // unknown: its keeper was killed, nobody saw the status
  int code = 0;                      // exit status or signal number
  bool core_dumped = false;
  base::Millis lasted{0};         // monotonic; 0 when unknown
  Usage usage;                    // of the process and the children it waited for
  std::optional<Reason> ordered;  // somebody had announced that this run was about to be ended
  friend bool operator==(const RunEnded&, const RunEnded&) = default;
};

// From here on no restart: the job ends as soon as its processes have.
struct StopOrdered {
  Reason reason;
  friend bool operator==(const StopOrdered&, const StopOrdered&) = default;
};

struct RestartScheduled {
  RunNumber run = 0;  // the coming one
  base::Millis delay{0};
  std::uint32_t in_a_row = 0;
  std::optional<Reason> ordered;  // empty: the restart policy
  friend bool operator==(const RestartScheduled&, const RestartScheduled&) = default;
};

// A restart was ordered while a run was under way: once nothing of it is left the next run starts, whatever
// the policy says and whichever keeper is there then. The RestartScheduled that follows carries it out; a
// stop takes it back.
struct RestartOrdered {
  Reason reason;
  friend bool operator==(const RestartOrdered&, const RestartOrdered&) = default;
};

// Settings changed while the job ran: the JSON text of the update command, applied again by a later keeper.
struct SettingsChanged {
  std::string settings;
  friend bool operator==(const SettingsChanged&, const SettingsChanged&) = default;
};

// The clock of the time limit stands still from here on, or goes on.
struct ClockPaused {
  bool paused = false;
  friend bool operator==(const ClockPaused&, const ClockPaused&) = default;
};

// Last record: no process of the job is left and none will be started.
struct JobEnded {
  RunNumber last_run = 0;  // 0: none was started
  std::string why;         // "finished", "stopped", "start_failed", "restarts_exhausted"
  friend bool operator==(const JobEnded&, const JobEnded&) = default;
};

using RecordBody = std::variant<KeeperStarted, RunStarted, StartFailed, RunEnded, StopOrdered, RestartOrdered,
                                RestartScheduled, SettingsChanged, ClockPaused, JobEnded>;

struct JournalRecord {
  std::uint64_t seq = 0;  // 1, 2, …; gaps are what is needed no more
  base::WallTime wall;
  base::Millis mono{0};  // CLOCK_MONOTONIC, of the boot of the last KeeperStarted
  RecordBody body;
  friend bool operator==(const JournalRecord&, const JournalRecord&) = default;
};

// One line without CRC and newline, and back. Both never throw; unknown fields are ignored.
std::string SerializeRecord(const JournalRecord& record);
base::Result<JournalRecord> ParseRecord(std::string_view json);

// The whole line, "CRC JSON\n".
std::string EncodeLine(const JournalRecord& record);

struct JournalContent {
  std::vector<JournalRecord> records;
  std::size_t valid_bytes = 0;  // length of the part the records came from
  bool torn = false;            // something unreadable follows
};
JournalContent ParseJournal(std::string_view text);

// A file that is not there reads as empty.
base::Result<JournalContent> ReadJournal(const std::filesystem::path& job_dir);

// The same a record at a time, for files of any size. An error may come after some records.
struct JournalEnd {
  std::size_t valid_bytes = 0;
  bool torn = false;
};
base::Result<JournalEnd> EachRecord(const std::filesystem::path& job_dir,
                                    const std::function<void(JournalRecord)>& visit);

// What is still needed where everything up to `stored` is in a daemon's store: all that is younger, and of
// the rest what a later keeper goes on by. Its history is the same, but for the number of runs that are over.
std::vector<JournalRecord> StillNeeded(const std::vector<JournalRecord>& records, std::uint64_t stored);

// The story so far in one value.
struct JobHistory {
  std::optional<KeeperStarted> keeper;  // the latest
  std::uint64_t last_seq = 0;
  RunNumber last_run = 0;             // highest number used, started or not
  std::uint32_t runs = 0;             // commands handed to execve that did not fail there, as far as told
  bool run_open = false;              // last_run started and no end of it is recorded
  std::optional<RunStarted> started;  // of last_run
  std::optional<base::WallTime> started_at;
  base::Millis started_mono{0};
  std::optional<StartFailed> failed;  // of last_run
  std::optional<RunEnded> ended;      // of last_run
  std::optional<base::WallTime> ended_at;
  std::optional<StopOrdered> stop;
  std::optional<RestartOrdered> restart_ordered;  // and not carried out
  std::optional<RestartScheduled> restart;        // scheduled and not begun
  std::uint32_t in_a_row = 0;                     // restarts in a row, for the policy
  std::vector<std::string> settings;              // of every SettingsChanged, in order
  std::optional<JobEnded> job_ended;
};
void Apply(JobHistory& history, const JournalRecord& record);
JobHistory Summarize(const std::vector<JournalRecord>& records);

}  // namespace gpuman::keeper
