// The queue's part of the HTTP API as functions (docs/api/openapi.yaml). As with api::Client, each call
// blocks, and errors have the daemon's words. The caller names a job by id, tag, "7_3" or "@".
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

base::Result<SubmissionAnswer> Submit(const Client& daemon, const SubmitRequest& request);
base::Result<JobList> ListQueue(const Client& daemon, const QueueFilter& filter);
// The same list as JSON text, not parsed. It is one answer, which the daemon writes in pieces.
base::Result<std::string> ListQueueJson(const Client& daemon, const QueueFilter& filter);
// The same jobs with only the fields of a table: for tens of thousands of jobs.
base::Result<std::vector<QueueRow>> ListQueueRows(const Client& daemon, const QueueFilter& filter);
base::Result<JobView> HoldJob(const Client& daemon, std::string_view job);
base::Result<JobView> ReleaseJob(const Client& daemon, std::string_view job);
base::Result<JobView> CancelJob(const Client& daemon, std::string_view job);
base::Result<CancelAnswer> CancelJobs(const Client& daemon, const CancelRequest& request);
base::Result<JobView> UpdateJob(const Client& daemon, std::string_view job, const JobUpdate& update);
base::Result<SubmissionAnswer> RedoJob(const Client& daemon, std::string_view job,
                                       const RedoRequest& request);

base::Result<QueueInfo> GetQueueInfo(const Client& daemon);
base::Result<QueueSettings> SetQueueSettings(const Client& daemon, const QueueSettingsUpdate& update);
base::Result<ReservationList> ListReservations(const Client& daemon, bool all);
base::Result<Reservation> CreateReservation(const Client& daemon, const ReservationRequest& request);
base::Result<Reservation> CancelReservation(const Client& daemon, std::string_view id);
base::Result<QuotaList> ListQuotas(const Client& daemon);
// `subject`: "user" or "project".
base::Result<Quota> SetQuota(const Client& daemon, std::string_view subject, std::string_view name,
                             const QuotaUpdate& update);
base::Result<Quota> RemoveQuota(const Client& daemon, std::string_view subject, std::string_view name);
base::Result<IgnoredProcessList> ListIgnoredProcesses(const Client& daemon);
base::Result<IgnoredProcess> IgnoreProcess(const Client& daemon, const IgnoredProcess& rule);
base::Result<IgnoredProcess> StopIgnoring(const Client& daemon, std::string_view id);
// For runs that ended from `since` to `until`. `by`: user, project, gpu.
base::Result<StatsView> GetStats(const Client& daemon, std::string_view by,
                                 std::optional<base::WallTime> since, std::optional<base::WallTime> until);

}  // namespace gpuman::api
