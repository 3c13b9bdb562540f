// Jobs as lines of text: GET /v1/queue/rows, for tables of tens of thousands of jobs, where writing and
// reading JSON takes longer than everything else.
//
//   text/tab-separated-values: a line of titles, then one line a job, each with a line end. Times are
//   milliseconds since 1970, durations milliseconds, sizes bytes, lists separated by commas; an unknown
//   value is empty. A tab, a line end and a backslash in a text are written \t, \n and \\.
//
// Readers use the titles, so columns may be added. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"

namespace gpuman::api {

struct QueueRow {
  std::int64_t id = 0;
  std::optional<std::int64_t> array_id;
  std::optional<int> array_task;
  std::string tag;
  std::string user;
  std::string project;
  JobState state = JobState::kQueued;
  std::string reason;  // a word, or empty
  int priority = 128;
  int gpus_asked = 0;
  std::string gpus;                   // indices of the GPUs it has, "0,2"
  std::optional<base::Bytes> memory;  // limit on each GPU
  std::optional<base::Bytes> host_memory;
  std::optional<base::Millis> time_limit;
  base::WallTime submitted_at{};
  std::optional<base::WallTime> started_at, ended_at, estimated_start;
  std::optional<int> position;  // among the jobs that wait for room, from 1
  int estimate_presumed = 0;    // 1: the estimate rests on queue.presumed_time
};

// AppendQueueRow appends to a text that begins with the titles.
std::string QueueRowTitles();
void AppendQueueRow(std::string& text, const QueueRow& row);

// kCorrupt with the number of the line.
base::Result<std::vector<QueueRow>> ParseQueueRows(std::string_view text);

}  // namespace gpuman::api
