// The history of a GPU or of a job.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/parse_number.h"
#include "daemon/core/requests.h"
#include "daemon/history/module.h"
#include "daemon/history/views.h"
#include "daemon/jobs/routes.h"
#include "gpu/inventory.h"

namespace gpuman::daemon {
namespace {

using HistoryCall = Call<api::NoBody, api::HistoryView>;

constexpr std::chrono::hours kUsual{1};  // of a GPU

// What a question is about, and the parts of the answer that say so.
struct Subject {
  history::Key key;
  std::optional<base::WallTime> since, until;  // where the question has none
  api::HistoryView view;
};

// A GPU that the driver lists, or the UUID of one that it listed before.
base::Result<Subject> GpuSubject(HistoryModule& module, const std::string& reference, base::WallTime now) {
  Subject subject{{history::SubjectKind::kGpu, reference}, now - kUsual, {}, {}};
  const auto gpu = gpu::Select(module.core().inventory().gpus, reference);
  const bool is_uuid = reference.size() == 40 && reference[4 + 8] == '-';
  if (!gpu && !is_uuid) return base::Fail(gpu.error());
  if (gpu) {
    subject.key.name = gpu->uuid;
    subject.view.gpu_number = gpu::NumberOf(*gpu);
    subject.view.memory_limit = gpu->memory;
  }
  subject.view.gpu = subject.key.name;
  return subject;
}

// On the first of its GPUs.
std::optional<base::Bytes> LimitOf(Core& core, const jobs::Job& job) {
  if (!job.spec->memory) return std::nullopt;
  const auto gpus = job.gpus.empty() ? core.AllGpus() : job.gpus;
  const gpu::Gpu* const gpu = gpus.empty() ? nullptr : gpu::FindGpu(core.inventory(), gpus.front());
  if (!gpu) return std::nullopt;
  return job.spec->memory->Of(gpu->memory);
}

std::optional<std::int64_t> IdOf(const std::string& reference) {
  const auto id = base::ParseNumber<std::int64_t>(reference);
  return id && *id > 0 ? id : std::nullopt;
}

// A job that the daemon knows, or the id of one that it has forgotten.
base::Result<Subject> JobSubject(HistoryModule& module, const http::ExchangePtr& exchange,
                                 const std::string& reference) {
  Subject subject{{history::SubjectKind::kJob, reference}, {}, {}, {}};
  const auto job = JobFor(module.jobs(), exchange, reference, api::Right::kSee);
  if (!job && (job.error().code != base::ErrorCode::kNotFound || !IdOf(reference)))
    return base::Fail(job.error());
  subject.view.job = job ? (*job)->id.value : *IdOf(reference);
  subject.key.name = std::to_string(*subject.view.job);
  if (!job) return subject;
  subject.view.tag = (*job)->tag;
  subject.view.memory_limit = LimitOf(module.core(), **job);
  subject.since = (*job)->started_at.value_or((*job)->submitted_at);
  subject.until = (*job)->ended_at;
  return subject;
}

base::Result<Subject> SubjectOf(HistoryModule& module, const HistoryCall& call, base::WallTime now) {
  const auto gpu = call.request().Query("gpu"), job = call.request().Query("job");
  if (gpu.has_value() == job.has_value())
    return base::Fail(base::ErrorCode::kInvalidArgument, "a history is of one GPU or of one job",
                      "write ?gpu=0 or ?job=train");
  return gpu ? GpuSubject(module, std::string(*gpu), now)
             : JobSubject(module, call.exchange(), std::string(*job));
}

base::Result<Archive::Asked> AskedOf(const HistoryCall& call, const Subject& subject, base::WallTime now) {
  GPUMAN_ASSIGN(const auto since, MomentParameter(call.request(), "since", now));
  GPUMAN_ASSIGN(const auto until, MomentParameter(call.request(), "until", now));
  GPUMAN_ASSIGN(const auto points,
                NumberParameter(call.request(), "points", static_cast<std::uint64_t>(api::kHistoryPoints)));
  if (points < static_cast<std::uint64_t>(api::kMinHistoryPoints) ||
      points > static_cast<std::uint64_t>(api::kMaxHistoryPoints))
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      fmt::format("points: {} is not between {} and {}", points, api::kMinHistoryPoints,
                                  api::kMaxHistoryPoints));
  Archive::Asked asked{subject.key, {}, {}, static_cast<std::int64_t>(points), history::SecondOf(now)};
  // The second under way counts.
  const auto end = until ? until : subject.until;
  if (end) asked.until = history::SecondOf(*end) + 1;
  if (const auto begin = since ? since : subject.since) asked.since = history::SecondOf(*begin);
  const std::int64_t last = asked.until.value_or(asked.second + 1);
  if (asked.since && *asked.since >= last) {
    if (since)
      return base::Fail(base::ErrorCode::kInvalidArgument, "the history would end before it begins",
                        "since is the earlier time, until the later one");
    asked.since = last - std::chrono::seconds(kUsual).count();  // `until` lies before what is usual
  }
  return asked;
}

base::Result<> ShowHistory(HistoryModule& module, const HistoryCall& call) {
  const auto now = module.core().clock().Wall();
  GPUMAN_ASSIGN(const Archive* const archive, module.archive());
  GPUMAN_ASSIGN(Subject subject, SubjectOf(module, call, now));
  GPUMAN_ASSIGN(auto asked, AskedOf(call, subject, now));
  const auto text = std::make_shared<std::string>();
  const auto work = [ask = archive->Ask(std::move(asked)), subject = std::move(subject), text] {
    const auto answer = ask();
    auto view = HistoryViewOf(answer.plan, answer.rows, subject.key.kind);
    view.gpu = subject.view.gpu;
    view.gpu_number = subject.view.gpu_number;
    view.job = subject.view.job;
    view.tag = subject.view.tag;
    view.memory_limit = subject.view.memory_limit;
    *text = api::Encode(view);
  };
  return module.core().AsideIfRoom(
      call.request().party,
      {.work = work,
       .then = [call, text] { SendJson(call.exchange(), std::move(*text), call.status()); },
       .is_cancelled = [exchange = call.exchange()] { return exchange->Gone(); }});
}

}  // namespace

void HistoryModule::AddRoutes(http::Router& router) {
  RouteRegistrar(*this, router)(api::routes::kHistory, ShowHistory);
}

}  // namespace gpuman::daemon
