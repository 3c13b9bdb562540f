// The rows of the lists of `gpuman top`: filtered and in order. Pure. Nothing is formatted here, since only
// the rows that are seen need that.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cli/top/state.h"

namespace gpuman::cli::top {

// Points into the State it is of.
struct Row {
  RowId id;
  const api::JobView* job = nullptr;      // nullptr: the row is of no job, or the status does not have it
  const api::QueueRow* queued = nullptr;  // of a job of the page on the queue
  const api::GpuView* gpu = nullptr;      // of a process
  const api::ProcessView* process = nullptr;
  const api::ShareGpu* share_gpu = nullptr;  // of a heading and a job of the page on sharing
  const api::ShareJob* share_job = nullptr;
  bool below = false;  // a process in the tree, below its job
  bool last = false;   // the last one below its job
};

// The rows of the page that is chosen:
//   jobs        jobs that run or are suspended, with their processes below them, and processes of no job, in
//               the State's order; then jobs that ended lately
//   queue       jobs that wait, the next one first
//   sharing     a heading for each shared GPU, and its jobs
//   processes   every process on every GPU, in the State's order
//
// A row stays where each word of the filter fits it, in any case of letters: "gpu:0", "user:ann",
// "name:bert", "id:7", "pid:7", "state:running", or a word alone, which is a part of name, user, state or
// command, or the whole id or pid. A job of the tree also stays for a process of its own that fits.
std::vector<Row> RowsOf(const State& state);

// The job of a row, also where the status does not have it.
struct JobLabel {
  std::int64_t id = 0;
  std::string_view tag, user;  // the user may be unknown: empty
};
std::optional<JobLabel> NameOf(const Row& row);

// nullptr: the status does not have it.
const api::JobView* FindJob(const State& state, std::int64_t id);

// What the processes of a job on GPUs use of the host; each process counts once. nullopt: not known of any.
struct JobHostUsage {
  std::optional<double> cpu;  // processors
  std::optional<base::Bytes> memory;
};
JobHostUsage HostUseOf(const State& state, const api::JobView& job);

// The GPUs that the filter leaves: all, or those of its "gpu:" words.
std::vector<const api::GpuView*> GpusShown(const State& state);

// How much the job uses the GPU on which it works most: the sum of its processes there, in percent; nullopt:
// not known.
std::optional<unsigned> UtilizationOf(const State& state, const api::JobView& job);

}  // namespace gpuman::cli::top
