// The list of jobs: `gpuman queue` and gflow's `gqueue`, in their columns. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/queue_rows.h"
#include "api/types.h"
#include "cli/text.h"

namespace gpuman::cli::queue {

enum class SortBy { kQueue, kId, kState, kTime, kName, kGpus, kPriority };
std::optional<SortBy> SortByFromString(std::string_view word);

// A job, and the jobs that a tree shows above it.
struct Listed {
  api::QueueRow row;
  std::vector<std::int64_t> after;  // the jobs it depends on, and the job that it repeats
};

// The row of the table for a job; `gpus` are the GPUs of the machine.
api::QueueRow RowOf(const api::JobView& job, const std::vector<api::GpuView>& gpus);
Listed ListedOf(const api::JobView& job, const std::vector<api::GpuView>& gpus);

void Sort(std::vector<Listed>& jobs, SortBy by, base::WallTime now);

// Reads names of columns: JOBID NAME ST STATE TIME TIMELIMIT MEMORY GPUMEM NODES GPUS NODELIST(REASON) USER
// PROJECT PRIORITY START SUBMIT, in any case; NODELIST alone is accepted, too. kInvalidArgument names the
// unknown column.
base::Result<std::vector<std::string>> ParseColumns(std::string_view text);
std::vector<std::string> UsualColumns();
std::vector<std::string> GflowColumns();

struct TableForm {
  std::vector<std::string> columns;
  bool tree = false;
  bool group = false;  // by state
  bool gflow = false;  // reasons in gflow's words
};
std::string RenderTable(const std::vector<Listed>& jobs, const TableForm& form, const TerminalStyle& style,
                        base::WallTime now);

// One record a job with fixed field names: id name state … (docs/queue.md).
std::string RenderCsv(const std::vector<Listed>& jobs, base::WallTime now);
std::string RenderYaml(const std::vector<Listed>& jobs, base::WallTime now);

// gflow's letters and words: PD and "Queued" for a state; "JobHeldUser" for the reason held_by_user.
std::string_view ShortState(spec::JobState state);
std::string_view GflowState(spec::JobState state);
std::string GflowReason(std::string_view reason);
// The states that a word means: "running", gflow's "Running" and "R" mean one state, in any case; some words
// mean several states. nullopt for an unknown word.
std::optional<std::vector<std::string>> StatesOf(std::string_view word);

// How long the job has run until now, or until its end.
std::optional<base::Millis> RunTime(const api::QueueRow& row, base::WallTime now);
// "7", or "7_3" for a task of an array.
std::string IdOf(const api::QueueRow& row);

}  // namespace gpuman::cli::queue
