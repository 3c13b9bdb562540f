#include "api/queue_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <iterator>
#include <tuple>
#include <utility>

#include "api/ask.h"
#include "api/queue_json.h"

namespace gpuman::api {
namespace {

Query QueryOf(const QueueFilter& filter) {
  Query query;
  query.Add("states", filter.states);
  query.Add("users", filter.users);
  query.Add("projects", filter.projects);
  query.Add("names", filter.names);
  query.Add("jobs", filter.jobs);
  query.AddNumber("limit", filter.limit);
  query.AddNumber("after", filter.after);
  return query;
}

// Jobs in one answer: with pages, the daemon's work for one answer is short.
constexpr std::int64_t kRowsPerPage = 5000, kJobsPerPage = 1000;

// Asks for page after page; each page begins after the last id of the page before. `ask` returns the jobs of
// a page.
template <typename T, typename Ask>
base::Result<std::vector<T>> Pages(QueueFilter filter, std::int64_t page, const Ask& ask) {
  std::vector<T> all;
  filter.limit = page;
  filter.after = 0;
  for (;;) {
    GPUMAN_ASSIGN(std::vector<T> some, ask(filter));
    const auto got = static_cast<std::int64_t>(some.size());
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
    // A daemon that does not know pages returns more than one page, and all jobs.
    if (got != page) return all;
    filter.after = all.back().id;
  }
}

int PositionOf(const QueueRow& row) { return row.position.value_or(INT_MAX); }
int PositionOf(const JobView& job) { return job.queue ? job.queue->position.value_or(INT_MAX) : INT_MAX; }

// The order of a list in one answer: running jobs, then waiting jobs in the order in which they start, then
// the other waiting jobs, then ended jobs.
template <typename T>
void PutInOrder(std::vector<T>& jobs) {
  const auto key = [](const T& job) {
    const bool waits = IsWaiting(job.state);
    return std::tuple(IsEnded(job.state) ? 2 : waits ? 1 : 0, waits ? PositionOf(job) : 0, job.id);
  };
  std::sort(jobs.begin(), jobs.end(), [&](const T& a, const T& b) { return key(a) < key(b); });
}

bool IsOnePage(const QueueFilter& filter) { return filter.limit || filter.after; }

base::Result<JobList> ListPage(const Client& daemon, const QueueFilter& filter) {
  return AskWithoutTimeout(daemon, routes::kQueue, {{}, QueryOf(filter)});
}

base::Result<std::vector<QueueRow>> ListRowsOfPage(const Client& daemon, const QueueFilter& filter,
                                                   const HttpOptions& options) {
  GPUMAN_ASSIGN(const HttpAnswer answer,
                daemon.AskRaw(RequestFor(routes::kQueueRows, {{}, QueryOf(filter)}), options));
  return ParseQueueRows(answer.body);
}

}  // namespace

base::Result<JobList> ListQueue(const Client& daemon, const QueueFilter& filter) {
  if (IsOnePage(filter)) return ListPage(daemon, filter);
  JobList list;
  GPUMAN_ASSIGN(list.jobs, Pages<JobView>(filter, kJobsPerPage,
                                          [&](const QueueFilter& page) -> base::Result<std::vector<JobView>> {
                                            GPUMAN_ASSIGN(auto some, ListPage(daemon, page));
                                            return std::move(some.jobs);
                                          }));
  PutInOrder(list.jobs);
  return list;
}

base::Result<std::string> ListQueueJson(const Client& daemon, const QueueFilter& filter) {
  GPUMAN_ASSIGN(HttpAnswer answer,
                daemon.AskRaw(RequestFor(routes::kQueue, {{}, QueryOf(filter)}), NoTimeout()));
  return std::move(answer.body);
}

base::Result<std::vector<QueueRow>> ListQueueRows(const Client& daemon, const QueueFilter& filter,
                                                  const HttpOptions& options) {
  if (IsOnePage(filter)) return ListRowsOfPage(daemon, filter, options);
  GPUMAN_ASSIGN(auto rows, Pages<QueueRow>(filter, kRowsPerPage, [&](const QueueFilter& page) {
                  return ListRowsOfPage(daemon, page, options);
                }));
  PutInOrder(rows);
  return rows;
}

}  // namespace gpuman::api
