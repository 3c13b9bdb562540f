// Lists of the queue's jobs, of any length. As with api::Client, each call blocks, and errors have the
// daemon's words. The caller names a job by id, tag, "7_3" or "@".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/ask.h"
#include "api/client.h"
#include "api/queue_rows.h"
#include "api/queue_types.h"

namespace gpuman::api {

// Selects jobs that match each list that is not empty. Without states: jobs that have not ended.
struct QueueFilter {
  std::vector<std::string> states;  // or "all"
  std::vector<std::string> users, projects, names, jobs;
  // If `limit` or `after` is set, the answer is one page: at most `limit` jobs in order of their ids, which
  // are above `after`. If neither is set, the client asks for all pages and puts the whole list in order.
  std::optional<std::int64_t> limit;
  std::optional<std::int64_t> after;
};

base::Result<JobList> ListQueue(const Client& daemon, const QueueFilter& filter);
// The same list as JSON text, not parsed. It is one answer, which the daemon writes in pieces.
base::Result<std::string> ListQueueJson(const Client& daemon, const QueueFilter& filter);
// The same jobs with only the fields of a table: for tens of thousands of jobs.
// `options` are those of each exchange.
base::Result<std::vector<QueueRow>> ListQueueRows(const Client& daemon, const QueueFilter& filter,
                                                  const HttpOptions& options = NoTimeout());
}  // namespace gpuman::api
