#include "api/client.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

#include "api/event_stream.h"
#include "api/json.h"
#include "api/target.h"

namespace gpuman::api {
namespace {

HttpOptions Patient(const Wake& wake = {}) {
  HttpOptions options;
  options.patience.reset();
  options.wake_fd = wake.fd;
  options.on_wake = wake.on_wake;
  return options;
}

base::Error NotUnderstood(base::Error error) {
  error.code = base::ErrorCode::kInternal;
  error.hint = "is gpumand of the same version as gpuman?";
  return std::move(error).In("the daemon's answer is not understood");
}

}  // namespace

base::Result<HttpAnswer> Client::AskRaw(const HttpRequest& request, const HttpOptions& options) const {
  GPUMAN_ASSIGN(HttpAnswer answer, connection_.ok() ? Exchange(std::move(connection_), request, options)
                                                    : Exchange(socket_, request, options));
  if (answer.status < 200 || answer.status >= 300)
    return base::Fail(ErrorOfAnswer(answer.status, answer.body));
  return answer;
}

template <typename T>
base::Result<T> Client::Ask(HttpRequest request, HttpOptions options) const {
  GPUMAN_ASSIGN(const HttpAnswer answer, AskRaw(request, options));
  auto value = Decode<T>(answer.body);
  if (!value) return base::Fail(NotUnderstood(std::move(value.error())));
  return value;
}

base::Result<VersionView> Client::Version() const { return Ask<VersionView>({"GET", "/v1/version", {}}); }

namespace {

constexpr std::size_t kJobsOfPage = 1000;

std::string PageOfAll(std::string_view path, const std::optional<std::int64_t>& after) {
  return fmt::format("{}{}", path,
                     Query()
                         .AddFlag("all", true)
                         .AddNumber("limit", std::optional(kJobsOfPage))
                         .AddNumber("after", after)
                         .text());
}

}  // namespace

// Adds the jobs after the given page.
base::Result<> Client::AddPages(std::vector<JobView>& jobs) const {
  // A daemon that does not know pages returns more than one page, and all jobs.
  for (std::size_t got = jobs.size(); got == kJobsOfPage;) {
    GPUMAN_ASSIGN(JobList page, Ask<JobList>({"GET", PageOfAll("/v1/jobs", jobs.back().id), {}}));
    got = page.jobs.size();
    jobs.insert(jobs.end(), std::make_move_iterator(page.jobs.begin()),
                std::make_move_iterator(page.jobs.end()));
  }
  return {};
}

base::Result<StatusView> Client::Status(bool all) const {
  if (!all) return Ask<StatusView>({"GET", "/v1/status", {}});
  GPUMAN_ASSIGN(StatusView status, Ask<StatusView>({"GET", PageOfAll("/v1/status", {}), {}}));
  GPUMAN_TRY(AddPages(status.jobs));
  return status;
}

base::Result<GpuList> Client::Gpus() const { return Ask<GpuList>({"GET", "/v1/gpus", {}}); }

base::Result<GpuView> Client::Gpu(std::string_view gpu) const {
  return Ask<GpuView>({"GET", "/v1/gpus/" + PercentEncode(gpu), {}});
}

base::Result<HealthReport> Client::Health() const { return Ask<HealthReport>({"GET", "/v1/health", {}}); }

base::Result<HealthReport> Client::AcknowledgeHealth(const HealthAcknowledgement& what) const {
  return Ask<HealthReport>({"POST", "/v1/health/acknowledge", Encode(what)});
}

base::Result<MigReport> Client::Mig(std::string_view gpu) const {
  const std::string query = gpu.empty() ? "" : "?gpu=" + PercentEncode(gpu);
  return Ask<MigReport>({"GET", "/v1/mig" + query, {}}, Patient());
}

base::Result<MigChanges> Client::PlanMig(const MigRequest& request) const {
  return Ask<MigChanges>({"POST", "/v1/mig/plan", Encode(request)}, Patient());
}

base::Result<MigChanges> Client::ApplyMig(const MigRequest& request) const {
  return Ask<MigChanges>({"POST", "/v1/mig/apply", Encode(request)}, Patient());
}

base::Result<MpsReport> Client::Mps() const { return Ask<MpsReport>({"GET", "/v1/mps", {}}); }

base::Result<MpsReport> Client::StartMps(const MpsOrder& order) const {
  return Ask<MpsReport>({"POST", "/v1/mps/start", Encode(order)}, Patient());
}

base::Result<MpsReport> Client::StopMps(const MpsStop& order) const {
  return Ask<MpsReport>({"POST", "/v1/mps/stop", Encode(order)}, Patient());
}

base::Result<MpsReport> Client::LimitMps(const MpsOrder& order) const {
  return Ask<MpsReport>({"POST", "/v1/mps/limit", Encode(order)}, Patient());
}

base::Result<MpsReport> Client::TerminateMps(const MpsTermination& order) const {
  return Ask<MpsReport>({"POST", "/v1/mps/terminate", Encode(order)}, Patient());
}

base::Result<ShareView> Client::Share() const { return Ask<ShareView>({"GET", "/v1/share", {}}); }

base::Result<ShareView> Client::SetShare(const ShareUpdate& update) const {
  return Ask<ShareView>({"PUT", "/v1/share", Encode(update)});
}

base::Result<JobList> Client::Jobs(bool all) const {
  if (!all) return Ask<JobList>({"GET", "/v1/jobs", {}});
  GPUMAN_ASSIGN(JobList list, Ask<JobList>({"GET", PageOfAll("/v1/jobs", {}), {}}));
  GPUMAN_TRY(AddPages(list.jobs));
  return list;
}

base::Result<JobView> Client::Job(std::string_view job) const {
  return Ask<JobView>({"GET", JobTarget(job), {}});
}

base::Result<JobView> Client::Run(const RunRequest& request) const {
  return Ask<JobView>({"POST", "/v1/jobs", Encode(request)});
}

base::Result<JobView> Client::Update(std::string_view job, const UpdateRequest& request) const {
  return Ask<JobView>({"PATCH", JobTarget(job), Encode(request)});
}

base::Result<JobView> Client::Restart(std::string_view job, const UpdateRequest& changes) const {
  // A daemon of an earlier version takes no body: the client sends one only if something changes.
  std::string body = Encode(changes);
  if (body == Encode(UpdateRequest{})) body.clear();
  return Ask<JobView>({"POST", JobTarget(job, "/restart"), std::move(body)}, Patient());
}

base::Result<JobView> Client::Remove(std::string_view job, bool keep_running) const {
  return Ask<JobView>({"DELETE", JobTarget(job, Query().AddFlag("keep_running", keep_running).text()), {}},
                      Patient());
}

base::Result<JobView> Client::Suspend(std::string_view job) const {
  return Ask<JobView>({"POST", JobTarget(job, "/suspend"), {}}, Patient());
}

base::Result<JobView> Client::Resume(std::string_view job, const PlaceRequest& place) const {
  return Ask<JobView>({"POST", JobTarget(job, "/resume"), Encode(place)}, Patient());
}

base::Result<JobView> Client::Move(std::string_view job, const PlaceRequest& place) const {
  return Ask<JobView>({"POST", JobTarget(job, "/move"), Encode(place)}, Patient());
}

base::Result<JobView> Client::Wait(std::string_view job, const Wake& wake) const {
  return Ask<JobView>({"GET", JobTarget(job, "/wait"), {}}, Patient(wake));
}

base::Result<> Client::Log(std::string_view job, const LogOptions& options, const BodySink& sink,
                           const Wake& wake) const {
  const auto query = Query()
                         .AddFlag("follow", options.follow)
                         .AddNumber("tail", options.tail)
                         .AddNumber("offset", options.offset)
                         .text();
  HttpOptions http = Patient(wake);
  http.sink = sink;
  if (options.begins) {
    http.header = kLogOffsetHeader;
    http.take_header = [&](std::string_view value) {
      std::uint64_t offset = 0;
      std::from_chars(value.data(), value.data() + value.size(), offset);
      options.begins(offset);
    };
  }
  GPUMAN_TRY(AskRaw({"GET", JobTarget(job, "/log" + query), {}}, http));
  return {};
}

base::Result<EventList> Client::Events(const EventOptions& options) const {
  const auto query = Query().AddNumber("since", options.since).AddNumber("limit", options.limit).text();
  return Ask<EventList>({"GET", "/v1/events" + query, {}});
}

base::Result<> Client::FollowEvents(const EventOptions& options,
                                    const std::function<bool(EventView)>& take) const {
  const auto query = Query()
                         .AddFlag("follow", true)
                         .AddNumber("since", options.since)
                         .AddNumber("limit", options.limit)
                         .text();
  EventStreamReader reader;
  std::optional<base::Error> bad;
  HttpOptions http = Patient();
  http.sink = [&](std::string_view piece) {
    for (const auto& data : reader.Feed(piece)) {
      auto event = Decode<EventView>(data);
      if (!event) {
        bad = NotUnderstood(std::move(event.error()));
        return false;
      }
      if (!take(std::move(*event))) return false;
    }
    return true;
  };
  GPUMAN_TRY(AskRaw({"GET", "/v1/events" + query, {}}, http));
  if (bad) return base::Fail(std::move(*bad));
  return {};
}

}  // namespace gpuman::api
