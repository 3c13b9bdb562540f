// The list of jobs in its columns. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "api/queue_rows.h"
#include "api/types.h"
#include "cli/text.h"

namespace gpuman::cli::queue {

enum class SortBy { kQueue, kId, kState, kTime, kName, kGpus, kPriority };
std::optional<SortBy> SortByFromString(std::string_view word);

// A job, and the jobs that a tree shows above it.
struct JobListEntry {
  api::QueueRow row;
  std::vector<std::int64_t> after;  // the jobs it depends on, and the job that it repeats
};

// The row of the table for a job; `gpus` are the GPUs of the machine.
api::QueueRow RowOf(const api::JobView& job, const std::vector<api::GpuView>& gpus);
JobListEntry ListedOf(const api::JobView& job, const std::vector<api::GpuView>& gpus);

void Sort(std::vector<JobListEntry>& jobs, SortBy by, base::WallTime now);

// Reads names of columns: JOBID NAME ST STATE TIME TIMELIMIT MEMORY GPUMEM NODES GPUS NODELIST(REASON) USER
// PROJECT PRIORITY START SUBMIT, in any case; NODELIST alone is accepted, too. kInvalidArgument names the
// unknown column.
base::Result<std::vector<std::string>> ParseColumns(std::string_view text);
std::vector<std::string> UsualColumns();
// NODELIST(REASON): the GPUs, or the reason why it has none.
std::string PlaceOrReason(const api::QueueRow& row);

struct JobTableOptions {
  std::vector<std::string> columns = UsualColumns();
  bool tree = false;
  bool group = false;  // by state
  std::string (*place)(const api::QueueRow& row) = PlaceOrReason;
};
std::string RenderTable(const std::vector<JobListEntry>& jobs, const JobTableOptions& form,
                        const TerminalStyle& style, base::WallTime now);

// How a command shows the list.
struct JobListOptions {
  JobTableOptions table;
  bool of_caller = false;                    // only the caller's jobs, where no user is typed
  std::string_view if_empty = "No jobs.\n";  // empty: the table's headings
  // Makes the JSON; absent: it is what the daemon and the other queue answer.
  api::Json (*json)(const std::vector<JobListEntry>& jobs, base::WallTime now) = nullptr;
};

// One record a job with fixed field names: id name state … (docs/queue.md).
std::string RenderCsv(const std::vector<JobListEntry>& jobs, base::WallTime now);
std::string RenderYaml(const std::vector<JobListEntry>& jobs, base::WallTime now);

// The letters and the word that users of other queues know: PD and "Queued".
std::string_view ShortState(spec::JobState state);
std::string_view LongState(spec::JobState state);
// The states that a word means: "running", "Running" and "R" mean one state, in any case; some words mean
// several states. nullopt for an unknown word.
std::optional<std::vector<std::string>> StatesOf(std::string_view word);

// How long the job has run until now, or until its end.
std::optional<base::Millis> RunTime(const api::QueueRow& row, base::WallTime now);
// "7", or "7_3" for a task of an array.
std::string IdOf(const api::QueueRow& row);

}  // namespace gpuman::cli::queue
