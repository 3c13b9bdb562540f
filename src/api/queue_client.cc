#include "api/queue_client.h"

#include <fmt/format.h>

#include "api/queue_json.h"
#include "api/target.h"

namespace gpuman::api {
namespace {

// Waiting jobs may have to be written, and stopped ones to end: no answer is late.
HttpOptions WithoutLimit() {
  HttpOptions options;
  options.patience.reset();
  return options;
}

template <typename T>
base::Result<T> Ask(const Client& daemon, HttpRequest request) {
  GPUMAN_ASSIGN(const HttpAnswer answer, daemon.AskRaw(request, WithoutLimit()));
  auto value = Decode<T>(answer.body);
  if (value) return value;
  value.error().code = base::ErrorCode::kInternal;
  value.error().hint = "is gpumand of the same version as gpuman?";
  return base::Fail(std::move(value.error()).In("the daemon's answer is not understood"));
}

std::string QueryOf(const QueueFilter& filter) {
  Query query;
  query.Add("states", filter.states);
  query.Add("users", filter.users);
  query.Add("projects", filter.projects);
  query.Add("names", filter.names);
  query.Add("jobs", filter.jobs);
  query.AddNumber("limit", filter.limit);
  query.AddNumber("after", filter.after);
  return query.text();
}

std::string QuotaTarget(std::string_view subject, std::string_view name) {
  return fmt::format("/v1/quotas/{}/{}", PercentEncode(subject), PercentEncode(name));
}

}  // namespace

base::Result<SubmissionAnswer> Submit(const Client& daemon, const SubmitRequest& request) {
  return Ask<SubmissionAnswer>(daemon, {"POST", "/v1/submissions", Encode(request)});
}

base::Result<JobList> ListQueue(const Client& daemon, const QueueFilter& filter) {
  return Ask<JobList>(daemon, {"GET", "/v1/queue" + QueryOf(filter), {}});
}

base::Result<std::string> ListQueueJson(const Client& daemon, const QueueFilter& filter) {
  GPUMAN_ASSIGN(HttpAnswer answer, daemon.AskRaw({"GET", "/v1/queue" + QueryOf(filter), {}}, WithoutLimit()));
  return std::move(answer.body);
}

base::Result<std::vector<QueueRow>> ListQueueRows(const Client& daemon, const QueueFilter& filter) {
  GPUMAN_ASSIGN(const HttpAnswer answer,
                daemon.AskRaw({"GET", "/v1/queue/rows" + QueryOf(filter), {}}, WithoutLimit()));
  return ParseQueueRows(answer.body);
}

base::Result<JobView> HoldJob(const Client& daemon, std::string_view job) {
  return Ask<JobView>(daemon, {"POST", JobTarget(job, "/hold"), {}});
}

base::Result<JobView> ReleaseJob(const Client& daemon, std::string_view job) {
  return Ask<JobView>(daemon, {"POST", JobTarget(job, "/release"), {}});
}

base::Result<JobView> CancelJob(const Client& daemon, std::string_view job) {
  return Ask<JobView>(daemon, {"POST", JobTarget(job, "/cancel"), {}});
}

base::Result<CancelAnswer> CancelJobs(const Client& daemon, const CancelRequest& request) {
  return Ask<CancelAnswer>(daemon, {"POST", "/v1/cancellations", Encode(request)});
}

base::Result<JobView> UpdateJob(const Client& daemon, std::string_view job, const JobUpdate& update) {
  return Ask<JobView>(daemon, {"PATCH", JobTarget(job), Encode(update)});
}

base::Result<SubmissionAnswer> RedoJob(const Client& daemon, std::string_view job,
                                       const RedoRequest& request) {
  return Ask<SubmissionAnswer>(daemon, {"POST", JobTarget(job, "/redo"), Encode(request)});
}

base::Result<QueueInfo> GetQueueInfo(const Client& daemon) {
  return Ask<QueueInfo>(daemon, {"GET", "/v1/queue/info", {}});
}

base::Result<QueueSettings> SetQueueSettings(const Client& daemon, const QueueSettingsUpdate& update) {
  return Ask<QueueSettings>(daemon, {"PATCH", "/v1/queue/settings", Encode(update)});
}

base::Result<ReservationList> ListReservations(const Client& daemon, bool all) {
  return Ask<ReservationList>(daemon, {"GET", all ? "/v1/reservations?all=1" : "/v1/reservations", {}});
}

base::Result<Reservation> CreateReservation(const Client& daemon, const ReservationRequest& request) {
  return Ask<Reservation>(daemon, {"POST", "/v1/reservations", Encode(request)});
}

base::Result<Reservation> CancelReservation(const Client& daemon, std::string_view id) {
  return Ask<Reservation>(daemon, {"DELETE", "/v1/reservations/" + PercentEncode(id), {}});
}

base::Result<QuotaList> ListQuotas(const Client& daemon) {
  return Ask<QuotaList>(daemon, {"GET", "/v1/quotas", {}});
}

base::Result<Quota> SetQuota(const Client& daemon, std::string_view subject, std::string_view name,
                             const QuotaUpdate& update) {
  return Ask<Quota>(daemon, {"PUT", QuotaTarget(subject, name), Encode(update)});
}

base::Result<Quota> RemoveQuota(const Client& daemon, std::string_view subject, std::string_view name) {
  return Ask<Quota>(daemon, {"DELETE", QuotaTarget(subject, name), {}});
}

base::Result<IgnoredProcessList> ListIgnoredProcesses(const Client& daemon) {
  return Ask<IgnoredProcessList>(daemon, {"GET", "/v1/ignored-processes", {}});
}

base::Result<IgnoredProcess> IgnoreProcess(const Client& daemon, const IgnoredProcess& rule) {
  return Ask<IgnoredProcess>(daemon, {"POST", "/v1/ignored-processes", Encode(rule)});
}

base::Result<IgnoredProcess> StopIgnoring(const Client& daemon, std::string_view id) {
  return Ask<IgnoredProcess>(daemon, {"DELETE", "/v1/ignored-processes/" + PercentEncode(id), {}});
}

base::Result<StatsView> GetStats(const Client& daemon, std::string_view by,
                                 std::optional<base::WallTime> since, std::optional<base::WallTime> until) {
  Query query;
  query.Add("by", by);
  query.Add("since", since);
  query.Add("until", until);
  return Ask<StatsView>(daemon, {"GET", "/v1/stats" + query.text(), {}});
}

}  // namespace gpuman::api
