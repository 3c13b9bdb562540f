#include "api/client.h"

#include <fmt/format.h>

#include <iterator>

#include "api/ask.h"
#include "api/event_stream.h"
#include "api/json.h"
#include "api/queue_json.h"
#include "base/parse_number.h"

namespace gpuman::api {
namespace {

HttpOptions NoTimeoutWith(const WaitCancellation& wake) {
  HttpOptions options = NoTimeout();
  options.wake_fd = wake.fd;
  options.on_wake = wake.on_wake;
  return options;
}

Query QueryOf(const EventOptions& options, bool follow) {
  return Query()
      .AddFlag("follow", follow)
      .AddNumber("since", options.since)
      .Add("from", options.from)
      .AddNumber("limit", options.limit)
      .Add("jobs", options.jobs);
}

}  // namespace

base::Result<HttpAnswer> Client::AskRaw(const HttpRequest& request, const HttpOptions& asked) const {
  HttpOptions options = asked;
  options.take_note = take_note_;
  return Successful(connection_.ok() ? Exchange(std::move(connection_), request, options)
                                     : Exchange(socket_, request, options));
}

base::Result<VersionView> Client::Version() const { return Ask(*this, routes::kVersion); }

namespace {

constexpr std::size_t kJobsOfPage = 1000;

RouteArguments PageOfAll(const std::optional<std::int64_t>& after) {
  return {
      {},
      Query().AddFlag("all", true).AddNumber("limit", std::optional(kJobsOfPage)).AddNumber("after", after)};
}

}  // namespace

// Adds the jobs after the given page.
base::Result<> Client::AddPages(std::vector<JobView>& jobs) const {
  // A daemon that does not know pages returns more than one page, and all jobs.
  for (std::size_t got = jobs.size(); got == kJobsOfPage;) {
    GPUMAN_ASSIGN(JobList page, Ask(*this, routes::kJobs, PageOfAll(jobs.back().id)));
    got = page.jobs.size();
    jobs.insert(jobs.end(), std::make_move_iterator(page.jobs.begin()),
                std::make_move_iterator(page.jobs.end()));
  }
  return {};
}

base::Result<StatusView> Client::Status(bool all) const {
  if (!all) return Ask(*this, routes::kStatus);
  GPUMAN_ASSIGN(StatusView status, Ask(*this, routes::kStatus, PageOfAll({})));
  GPUMAN_TRY(AddPages(status.jobs));
  return status;
}

base::Result<GpuList> Client::Gpus() const { return Ask(*this, routes::kGpus); }

base::Result<JobList> Client::Jobs(bool all) const {
  if (!all) return Ask(*this, routes::kJobs);
  GPUMAN_ASSIGN(JobList list, Ask(*this, routes::kJobs, PageOfAll({})));
  GPUMAN_TRY(AddPages(list.jobs));
  return list;
}

base::Result<JobView> Client::Job(std::string_view job) const { return Ask(*this, routes::kJob, {{job}}); }

base::Result<JobView> Client::Restart(std::string_view job, const RunOptionsPatch& changes) const {
  // A daemon of an earlier version takes no body: the client sends one only if something changes.
  HttpRequest request = RequestFor(routes::kRestartJob, {{job}}, changes);
  if (changes == RunOptionsPatch{}) request.body.clear();
  return ValueOf<JobView>(AskRaw(request, NoTimeout()));
}

base::Result<JobView> Client::Wait(std::string_view job, const WaitCancellation& wake) const {
  return Ask(*this, routes::kWaitForJob, {{job}}, {}, NoTimeoutWith(wake));
}

base::Result<> Client::Log(std::string_view job, const LogOptions& options, const BodySink& sink,
                           const WaitCancellation& wake) const {
  const auto query = Query()
                         .AddFlag("follow", options.follow)
                         .AddNumber("tail", options.tail)
                         .AddNumber("offset", options.offset);
  HttpOptions http = NoTimeoutWith(wake);
  http.sink = sink;
  if (options.begins) {
    http.header = kLogOffsetHeader;
    http.take_header = [&](std::string_view value) {
      options.begins(base::TakeNumber<std::uint64_t>(value).value_or(0));
    };
  }
  GPUMAN_TRY(AskRaw(RequestFor(routes::kJobLog, {{job}, query}), http));
  return {};
}

base::Result<EventList> Client::Events(const EventOptions& options) const {
  return Ask(*this, routes::kEvents, {{}, QueryOf(options, /*follow=*/false)});
}

base::Result<> Client::FollowEvents(const EventOptions& options,
                                    const std::function<bool(EventView)>& take) const {
  const auto query = QueryOf(options, /*follow=*/true);
  EventStreamReader reader;
  std::optional<base::Error> bad;
  HttpOptions http = NoTimeout();
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
  GPUMAN_TRY(AskRaw(RequestFor(routes::kEvents, {{}, query}), http));
  if (bad) return base::Fail(std::move(*bad));
  return {};
}

}  // namespace gpuman::api
