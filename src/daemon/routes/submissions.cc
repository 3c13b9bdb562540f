// Jobs that come into the queue: submitted, tried out, done once more.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "api/queue_json.h"
#include "daemon/job_request.h"
#include "daemon/queue/update.h"
#include "daemon/queue/views.h"
#include "daemon/recent_callers.h"
#include "daemon/routes/routes.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;
using http::PathParameters;

constexpr std::size_t kReadAtOnce = 256u << 10;  // bytes; more is read while the loop does other things
constexpr std::size_t kFewJobs = 16;             // of which each is told of in full
constexpr std::size_t kPiece = 500;              // jobs, some milliseconds

// What was taken, as the queue sees it a moment later.
api::SubmissionAnswer AnswerFor(Service& service, const std::vector<std::size_t>& heads,
                                const std::vector<base::JobId>& ids) {
  api::SubmissionAnswer answer;
  // Of many nobody reads the reason, and one who submits without a pause is not kept waiting for it.
  const bool few = heads.size() <= kFewJobs && service.queue().IsLookCheap();
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const std::size_t end = i + 1 < heads.size() ? heads[i + 1] : ids.size();
    api::SubmittedJob one;
    one.id = ids[heads[i]].value;
    const auto* const job = service.jobs().Find(ids[heads[i]]);
    if (job) {
      one.tag = job->tag;
      one.state = service.StateOf(*job);
      one.reason = job->reason;
      one.reason_detail = job->reason_detail;
    }
    if (job && heads.size() <= kFewJobs) {
      const auto view = few ? service.ViewWithQueue(*job) : service.View(*job);
      one.state = view.state;
      one.reason = view.reason;
      one.reason_detail = view.reason_detail;
      if (view.queue) one.estimated_start = view.queue->estimated_start;
      if (view.queue) one.estimate_presumed = view.queue->estimate_presumed;
    }
    if (job && job->array.array.value != 0)
      for (std::size_t at = heads[i]; at < end; ++at) one.tasks.push_back(ids[at].value);
    answer.jobs.push_back(std::move(one));
  }
  return answer;
}

void TryOut(Service& service, const ExchangePtr& exchange, const Prepared& prepared) {
  const auto outlook = service.queue().TryOut(prepared.jobs);
  if (!outlook) return SendError(exchange, outlook.error());
  api::SubmissionAnswer answer;
  for (const std::size_t head : prepared.heads) {
    api::SubmittedJob one;
    one.tag = prepared.jobs[head].job.tag;
    const bool held = prepared.jobs[head].job.state == jobs::JobState::kHeld;
    one.gpus = outlook->gpus[head];
    const auto reason = outlook->verdicts[head].reason;
    one.state = held                               ? api::JobState::kHeld
                : reason == queue::Reason::kStarts ? api::JobState::kStarting
                                                   : api::JobState::kQueued;
    if (reason != queue::Reason::kStarts) {
      one.reason = ToString(reason);
      one.reason_detail = outlook->details[head];
    }
    if (outlook->starts[head] != queue::kNever) one.estimated_start = outlook->starts[head];
    one.estimate_presumed = outlook->presumed[head];
    answer.jobs.push_back(std::move(one));
  }
  SendJson(exchange, api::Encode(answer));
}

base::Result<Prepared> Read(Service& service, const ExchangePtr& exchange, const Caller& caller,
                            const api::SubmitRequest& submitted) {
  const auto& peer = exchange->request().peer;
  GPUMAN_ASSIGN(auto own, ResourceLimitsOf(peer));
  const jobs::Shared<jobs::ResourceLimits> limits(std::move(own));
  const auto lookup = service.queue().LookupFor(peer.uid);
  return Prepare(submitted, {caller, service.inventory(), DriverEnvironment(), limits,
                             service.jobs().NextId(), service.Now(), lookup});
}

using Submitted = base::Result<api::SubmitRequest>;

// Jobs that ask for MPS wait for one GPU each, on which it runs. The GPUs of all of them.
base::Result<std::set<std::string>> BindToMps(Service& service, Prepared& prepared) {
  std::set<std::string> gpus;
  for (auto& [job, request] : prepared.jobs) {
    if (!job.mps) continue;
    if (request.gpus.count != 1)
      return base::Fail(
          base::ErrorCode::kInvalidArgument,
          fmt::format("mps: a client of MPS works on one GPU, and {} are asked for", request.gpus.count),
          "ask for --gpus 1");
    auto gpu = service.ChooseMps(request.gpus.devices);
    if (!gpu) return base::Fail(std::move(gpu.error()));
    request.gpus.devices = {*gpu};
    job.terms = TermsOf(request, *job.terms);
    gpus.insert(std::move(*gpu));
  }
  return gpus;
}

void Enqueue(Service& service, const ExchangePtr& exchange, Prepared prepared,
             const std::set<std::string>& notes) {
  service.queue().Submit(
      std::move(prepared.jobs), [&service, exchange, heads = std::move(prepared.heads),
                                 notes](const base::Result<std::vector<base::JobId>>& ids) {
        if (!ids) return SendError(exchange, ids.error());
        const auto answer =
            std::make_shared<api::SubmissionAnswer>(AnswerFor(service, heads, *ids));  // for the worker
        answer->notes.assign(notes.begin(), notes.end());
        if (ids->size() <= kPiece) return SendJson(exchange, api::Encode(*answer), 201);
        const auto text = std::make_shared<std::string>();
        service.Aside([answer, text] { *text = api::Encode(*answer); },
                      [exchange, text] { SendJson(exchange, std::move(*text), 201); });
      });
}

// What was prepared goes into the queue, or is tried out.
void Go(Service& service, const ExchangePtr& exchange, base::Result<Prepared> prepared, bool dry_run) {
  if (!prepared) return SendError(exchange, prepared.error());
  std::set<std::string> notes;
  for (const auto& job : prepared->jobs) {
    if (auto fine = service.CheckNotify(job.request.notify); !fine) return SendError(exchange, fine.error());
    if (const auto& profile = job.job.device_profile; !profile.empty())
      if (auto known = service.devices().CheckProfile(profile); !known)
        return SendError(exchange, known.error());
    if (auto note = service.NoteOnNotify(job.request.notify); !note.empty()) notes.insert(std::move(note));
    if (auto note = service.TightLimitOf(job.job)) notes.insert(std::move(*note));
  }
  const auto mps = BindToMps(service, *prepared);
  if (!mps) return SendError(exchange, mps.error());
  if (dry_run) return TryOut(service, exchange, *prepared);
  if (mps->empty()) return Enqueue(service, exchange, std::move(*prepared), notes);
  const auto kept = std::make_shared<Prepared>(std::move(*prepared));  // until the servers are there
  service.ReadyMps({mps->begin(), mps->end()},
                   [&service, exchange, kept, notes](const base::Result<>& ready) {
                     if (!ready) return SendError(exchange, ready.error());
                     Enqueue(service, exchange, std::move(*kept), notes);
                   });
}

void Take(Service& service, const ExchangePtr& exchange, RecentCallers& callers, const Submitted& submitted) {
  const auto& request = exchange->request();
  if (!submitted) return SendError(exchange, submitted.error());
  Go(service, exchange, Read(service, exchange, callers.Of(request.peer), *submitted), submitted->dry_run);
}

// A submission that is prepared in pieces, between which others are answered. Its ids are its own from the
// beginning, so that it can name its jobs; those of one that is refused are never used.
struct Large {
  Submitted submitted;
  Caller caller;
  gpu::Inventory inventory;
  std::map<std::string, std::string> environment = DriverEnvironment();
  jobs::Shared<jobs::ResourceLimits> limits;
  queue::ReferenceLookup lookup;
  base::JobId first_id{};
  std::optional<Preparation> preparation;
};

void Continue(Service& service, const ExchangePtr& exchange, const std::shared_ptr<Large>& large) {
  const auto more = large->preparation->Continue(kPiece);
  if (!more) return SendError(exchange, more.error());
  if (*more) return service.Later([&service, exchange, large] { Continue(service, exchange, large); });
  Prepared prepared = large->preparation->Take();
  base::JobId id = large->first_id;
  for (auto& one : prepared.jobs) one.job.id = {id.value++};
  // What it was made of is a lot to let go of.
  service.Aside(
      [large] {
        large->preparation.reset();
        large->submitted = Submitted();
      },
      [] {});
  Go(service, exchange, std::move(prepared), /*dry_run=*/false);
}

void TakeInPieces(Service& service, const ExchangePtr& exchange, RecentCallers& callers,
                  const std::shared_ptr<Large>& large) {
  const auto& peer = exchange->request().peer;
  if (!large->submitted || large->submitted->dry_run)
    return Take(service, exchange, callers, large->submitted);
  large->caller = callers.Of(peer);
  large->inventory = service.inventory();
  auto limits = ResourceLimitsOf(peer);
  if (!limits) return SendError(exchange, limits.error());
  large->limits = jobs::Shared<jobs::ResourceLimits>(std::move(*limits));
  large->lookup = service.queue().LookupFor(peer.uid);
  std::size_t count = 0;
  for (const auto& job : large->submitted->jobs)
    count += job.array ? static_cast<std::size_t>(api::CountTasks(*job.array)) : 1;
  large->first_id = service.jobs().Reserve(count);
  large->preparation.emplace(
      *large->submitted, SubmissionContext{large->caller, large->inventory, large->environment, large->limits,
                                           large->first_id, service.Now(), large->lookup});
  Continue(service, exchange, large);
}

void Submit(Service& service, const ExchangePtr& exchange, const std::shared_ptr<RecentCallers>& callers) {
  const auto& request = exchange->request();
  if (auto may = service.Check(request.peer, Act::kSubmit); !may) return SendError(exchange, may.error());
  if (request.body.size() <= kReadAtOnce)
    return Take(service, exchange, *callers, api::Decode<api::SubmitRequest>(request.body));
  const auto large = std::make_shared<Large>();  // shared by its pieces
  service.Aside(
      [exchange, large] { large->submitted = api::Decode<api::SubmitRequest>(exchange->request().body); },
      [&service, exchange, callers, large] { TakeInPieces(service, exchange, *callers, large); });
}

// A new job that asks for what the old one asked for.
PreparedJob Anew(Service& service, const jobs::Job& old) {
  PreparedJob again{old, service.queue().RequestFor(old)};
  jobs::Job fresh = AskingAsMuch(old);
  fresh.queued = true;
  fresh.state = jobs::JobState::kQueued;
  again.job = std::move(fresh);
  again.request.array.reset();
  return again;
}

// What the jobs waited for they wait for again where it is queued again; the first waits for nobody, unless
// it is told to.
void Redo(Service& service, const ExchangePtr& exchange, const std::vector<base::JobId>& ids) {
  const auto& request = exchange->request();
  const auto asked = api::Decode<api::RedoRequest>(request.body.empty() ? "{}" : request.body);
  if (!asked) return SendError(exchange, asked.error());
  if (auto may = service.Check(request.peer, Act::kSubmit); !may) return SendError(exchange, may.error());
  if (const auto* const run = ids.size() == 1 ? service.jobs().Find(ids.front()) : nullptr;
      run && !run->queued && !asked->cascade)
    return RunAgain(service, exchange, *run, asked->changes);
  std::vector<base::JobId> old = ids;
  if (asked->cascade)
    for (const auto id : ids)
      for (const auto other : service.queue().CancelledWith(id)) old.push_back(other);
  std::map<base::JobId, base::JobId> numbers;
  std::vector<PreparedJob> prepared;
  std::vector<std::size_t> heads;
  const auto lookup = service.queue().LookupFor(request.peer.uid);
  for (std::size_t i = 0; i < old.size(); ++i) {
    const auto* const job = service.jobs().Find(old[i]);
    if (!job || !job->queued)
      return SendError(
          exchange, {base::ErrorCode::kConflict, fmt::format("job {} was never in the queue", old[i].value),
                     "gpuman restart starts it again"});
    auto again = Anew(service, *job);
    if (i < ids.size()) {
      if (auto may = MayRewrite(asked->changes, request.peer.uid, *job); !may)
        return SendError(exchange, may.error());
      again.request.depends.list.clear();
      if (auto fine = ApplyQueueUpdate(asked->changes, service.inventory(), lookup, again); !fine)
        return SendError(exchange, fine.error());
    }
    for (auto& depends : again.request.depends.list)
      if (const auto number = numbers.find(depends.job); number != numbers.end())
        depends.job = number->second;
    again.job.terms = TermsOf(again.request, *again.job.terms);
    numbers[old[i]] = {service.jobs().NextId().value + static_cast<std::int64_t>(prepared.size())};
    heads.push_back(prepared.size());
    prepared.push_back(std::move(again));
  }
  service.queue().Submit(std::move(prepared), [&service, exchange, heads = std::move(heads)](
                                                  const base::Result<std::vector<base::JobId>>& done) {
    if (!done) return SendError(exchange, done.error());
    SendJson(exchange, api::Encode(AnswerFor(service, heads, *done)), 201);
  });
}

}  // namespace

base::Result<std::vector<base::JobId>> JobsFor(Service& service, const http::ExchangePtr& exchange,
                                               const std::string& reference) {
  const auto& peer = exchange->request().peer;
  GPUMAN_ASSIGN(auto ids, service.queue().JobsOf(reference, peer.uid));
  GPUMAN_TRY(service.queue().IsOneJob(reference, peer.uid));
  for (const auto id : ids)
    if (const auto* const job = service.jobs().Find(id))
      GPUMAN_TRY(service.Check(peer, Act::kControl, job->owner->uid));
  return ids;
}

void AddSubmissionRoutes(http::Router& router, Service& service) {
  const auto callers = std::make_shared<RecentCallers>(service.clock());
  router.Add("POST", "/v1/submissions",
             [&service, callers](const ExchangePtr& exchange, const PathParameters&) {
               service.WhenReady([&service, callers, exchange] { Submit(service, exchange, callers); });
             });
  router.Add("POST", "/v1/jobs/{ref}/redo",
             [&service](const ExchangePtr& exchange, const PathParameters& parameters) {
               const auto ids = JobsFor(service, exchange, parameters.at("ref"));
               if (!ids) return SendError(exchange, ids.error());
               Redo(service, exchange, *ids);
             });
}

}  // namespace gpuman::daemon
