// The records that a keeper writes of a job: STATE/jobs/ID/journal.
//
// Text, one record a line, appended: 8 hex digits of CRC-32C, a space, JSON, a newline. A last line without
// its newline is torn: its writer was killed, and what it stands for has not happened. Any other line that
// cannot be trusted is damage: its record was there once. The lines after it are read all the same.
// docs/keeper.md has every field. The reader takes no lock and may read while a keeper writes. The keeper
// removes old records when a daemon has them in its store, so that the journal of a job that is restarted for
// years stays short. Values; thread-compatible.
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
struct EndReason {
  std::string word;
  std::string detail;
  friend bool operator==(const EndReason&, const EndReason&) = default;
};

// A keeper took charge. If there are several such records, the earlier keepers were killed or left at a
// shutdown.
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

struct RunResourceUsage {
  std::chrono::microseconds user_cpu{0};
  std::chrono::microseconds system_cpu{0};
  base::Bytes max_rss{0};
  friend bool operator==(const RunResourceUsage&, const RunResourceUsage&) = default;
};

// The main process of the run ended; its children may live on until the next record.
struct RunEnded {
  RunNumber run = 0;
  EndKind kind = EndKind::kUnknown;  // unknown: the keeper was killed, so no process saw the status
  int code = 0;                      // exit status or signal number
  bool core_dumped = false;
  base::Millis lasted{0};            // monotonic; 0 when unknown
  RunResourceUsage usage;            // of the process and the children it waited for
  std::optional<EndReason> ordered;  // the reason that was announced before the end
  friend bool operator==(const RunEnded&, const RunEnded&) = default;
};

// The job ends as soon as its processes have ended; no run follows.
struct StopOrdered {
  EndReason reason;
  friend bool operator==(const StopOrdered&, const StopOrdered&) = default;
};

struct RestartScheduled {
  RunNumber run = 0;  // the next run
  base::Millis delay{0};
  std::uint32_t in_a_row = 0;
  std::optional<EndReason> ordered;  // empty: by the restart policy
  friend bool operator==(const RestartScheduled&, const RestartScheduled&) = default;
};

// A restart was ordered during a run: once no process of the run is left, the next run starts, whatever the
// policy says, also if another keeper is in charge by then. The RestartScheduled that follows carries the
// order out; a stop cancels it.
struct RestartOrdered {
  EndReason reason;
  friend bool operator==(const RestartOrdered&, const RestartOrdered&) = default;
};

// Settings changed while the job ran: the JSON text of the update command, applied again by a later keeper.
struct JobSettingsChanged {
  std::string settings;
  friend bool operator==(const JobSettingsChanged&, const JobSettingsChanged&) = default;
};

// The clock of the time limit stops here, or goes on.
struct ClockPauseChanged {
  bool paused = false;
  friend bool operator==(const ClockPauseChanged&, const ClockPauseChanged&) = default;
};

// The last record: no process of the job is left and none will be started.
struct JobEnded {
  RunNumber last_run = 0;  // 0: none was started
  std::string why;         // "finished", "stopped", "start_failed", "restarts_exhausted"
  friend bool operator==(const JobEnded&, const JobEnded&) = default;
};

using RecordBody = std::variant<KeeperStarted, RunStarted, StartFailed, RunEnded, StopOrdered, RestartOrdered,
                                RestartScheduled, JobSettingsChanged, ClockPauseChanged, JobEnded>;

struct JournalRecord {
  std::uint64_t seq = 0;  // 1, 2, …; gaps: removed records that were not needed any more
  base::WallTime wall;
  base::Millis mono{0};  // CLOCK_MONOTONIC, of the boot of the last KeeperStarted
  RecordBody body;
  friend bool operator==(const JournalRecord&, const JournalRecord&) = default;
};

// A record as JSON, without CRC and newline, and back. Both never throw; unknown fields are ignored.
std::string SerializeRecord(const JournalRecord& record);
base::Result<JournalRecord> ParseRecord(std::string_view json);

// The whole line, "CRC JSON\n".
std::string EncodeLine(const JournalRecord& record);

// What a reader found besides the records.
struct JournalEnd {
  std::size_t whole_bytes = 0;  // up to the end of the last whole line
  bool torn = false;            // an incomplete line follows
  bool lacks_newline = false;   // the last line is a whole record, but for its newline; it counts as whole
  std::optional<std::size_t> damaged_line{};  // the first one (1, 2, …) whose record cannot be read any more
  std::size_t unknown = 0;                    // records of kinds that only a later version knows
  friend bool operator==(const JournalEnd&, const JournalEnd&) = default;
};

struct ParsedJournal {
  std::vector<JournalRecord> records;  // all that can be read, also those behind damage
  JournalEnd end;
};
ParsedJournal ParseJournal(std::string_view text);

// A file that is not there reads as empty.
base::Result<ParsedJournal> ReadJournal(const std::filesystem::path& job_dir);

// The same, one record at a time, for files of any size. An error may come after some records.
base::Result<JournalEnd> EachRecord(const std::filesystem::path& job_dir,
                                    const std::function<void(JournalRecord)>& visit);

// The sentence about a damaged line, with the file's name; kCorrupt.
base::Error DamagedLine(const std::filesystem::path& job_dir, std::size_t line);

// The records that are still needed when a daemon's store has everything up to `stored`: all younger records,
// and those older records that a later keeper needs. Their history is the same, except for the number of runs
// that are over.
std::vector<JournalRecord> StillNeeded(const std::vector<JournalRecord>& records, std::uint64_t stored);

// The history of a job in one value.
struct JobHistory {
  std::optional<KeeperStarted> keeper;  // the latest
  std::uint64_t last_seq = 0;
  RunNumber last_run = 0;             // highest number used, started or not
  std::uint32_t runs = 0;             // runs whose command execve accepted, as far as the records tell
  bool run_open = false;              // last_run started and its end is not recorded
  std::optional<RunStarted> started;  // of last_run
  std::optional<base::WallTime> started_at;
  std::optional<StartFailed> failed;  // of last_run
  std::optional<RunEnded> ended;      // of last_run
  std::optional<base::WallTime> ended_at;
  std::optional<StopOrdered> stop;
  std::optional<RestartOrdered> restart_ordered;  // ordered and not carried out yet
  std::optional<RestartScheduled> restart;        // scheduled and not begun yet
  std::uint32_t in_a_row = 0;                     // restarts in a row, for the policy
  std::vector<std::string> settings;              // of every JobSettingsChanged, in order
  std::optional<JobEnded> job_ended;
};
void Apply(JobHistory& history, const JournalRecord& record);

}  // namespace gpuman::keeper
