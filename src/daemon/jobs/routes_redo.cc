// Routes that repeat jobs, together with jobs that were cancelled because they waited for them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "api/queue_json.h"
#include "daemon/jobs/routes.h"
#include "daemon/queue/update.h"

namespace gpuman::daemon {
namespace {

// A new queued job that asks for the same as the old one.
jobs::Job Anew(const jobs::Job& old) {
  jobs::Job fresh = AskingAsMuch(old);
  fresh.queued = true;
  fresh.state = spec::JobState::kQueued;
  return fresh;
}

// The progress of a request. First the jobs that it means are found, then each is made anew.
struct Redoing {
  std::vector<base::JobId> old;  // jobs that were named, then jobs that the cascade adds
  api::RedoRequest asked;
  std::size_t named = 0;
  std::vector<base::JobId> ended{};  // jobs that the cascade may add; a job waits for earlier ones
  std::size_t checked = 0;
  std::set<base::JobId> found{};
  std::vector<std::string> left_out{};  // notes
  std::set<std::string> memory{};       // notes on memory that was chosen
  base::JobId first{};                  // id of the first new job
  std::map<base::JobId, base::JobId> numbers{};
  std::vector<jobs::Job> prepared{};
  Dispatcher::Claim claim{};
  jobs::ValueDeduplicator<spec::JobSpec, jobs::JobSpecHash> specs{};  // tasks of an array have one script
};

constexpr std::size_t kNotes = 5;

// Adds a job to the cascade, if the caller has the right to it as to a named job. Another user's job that
// waited for one of these is left out, with the jobs that waited for it. It does not stop the others.
void AddToCascade(JobsModule& jobs, const http::Peer& peer, Redoing& all, base::JobId id) {
  const auto* const job = jobs.core().jobs().Find(id);
  if (!job || all.found.contains(id) || !jobs.queue().dispatcher().WasCancelledWith(*job, all.found)) return;
  if (!jobs.core().Check(peer, api::Right::kControlJob, job->owner->uid)) {
    all.left_out.push_back(
        fmt::format("job {} '{}' was cancelled with these and is not run again: it is {}'s", id.value,
                    job->tag, job->owner->user));
    return;
  }
  all.old.push_back(id);
  all.found.insert(id);
}

// Claims the new jobs before they are made. Their text counts as large as that of the old jobs or of the
// changed ones.
base::Result<> ClaimAll(JobsModule& jobs, Redoing& all) {
  struct Owned {
    jobs::JobOwner owner;
    std::size_t jobs = 0;
    base::Bytes commands{};
    jobs::TextAccount text{};
  };
  const auto& changes = all.asked.changes.queue;
  const auto command = changes && changes->command ? jobs::SizeOf(*changes->command) : base::Bytes{};
  std::map<uid_t, Owned> owners;
  for (const auto id : all.old) {
    const auto* const job = jobs.core().jobs().Find(id);
    if (!job) continue;
    auto& owned = owners[job->owner->uid];
    if (owned.jobs++ == 0) owned.owner = *job->owner;
    owned.commands += command;
    owned.text.Add(jobs::TextAccount::EntryOf(*job));
  }
  const auto claims = std::make_shared<std::vector<Dispatcher::Claim>>();  // released together
  for (const auto& [uid, owned] : owners) {
    GPUMAN_ASSIGN(auto claim, jobs.queue().dispatcher().claims().TakeForUser(
                                  owned.owner, owned.jobs, std::max(owned.commands, owned.text.bytes())));
    claims->push_back(std::move(claim));
  }
  all.claim = claims;
  return {};
}

base::Result<> HasEnded(const jobs::Job& job) {
  if (jobs::IsEnded(job)) return {};
  return base::Fail(base::ErrorCode::kConflict,
                    fmt::format("job {} '{}' has not ended", job.id.value, job.tag),
                    fmt::format("end it with gpuman cancel {}, or queue its command anew with gpuman submit",
                                job.id.value));
}

// What past runs say may have changed since the old job was queued.
base::Result<> ChooseAnew(JobsModule& jobs, jobs::Job& job, std::set<std::string>& notes) {
  spec::JobSpec spec = *job.spec;
  if (!spec.memory_auto) return {};
  notes.insert(ChooseMemory(job, jobs.queue().memory_choice_context(), spec));
  GPUMAN_TRY(CountMemory(spec, jobs.core().inventory()));
  job.spec = std::move(spec);
  return {};
}

// Where an old job is queued again, a job of the cascade waits for the new job in its place. A named job
// waits for no job, unless the changes say so.
base::Result<> MakeAnew(JobsModule& jobs, const http::Peer& peer, Redoing& all) {
  const std::size_t at = all.prepared.size();
  const auto* const job = jobs.core().jobs().Find(all.old[at]);
  if (!job || !job->queued)
    return base::Fail(base::ErrorCode::kConflict,
                      fmt::format("job {} was never in the queue", all.old[at].value),
                      "gpuman restart starts it again");
  auto again = Anew(*job);
  if (at < all.named) {
    GPUMAN_TRY(MayRewrite(all.asked.changes, peer.uid, *job));
    again.spec.Change([](spec::JobSpec& spec) { spec.depends.list.clear(); });
    GPUMAN_TRY(ApplyQueueUpdate(all.asked.changes, jobs.core().inventory(),
                                jobs.queue().dispatcher().references().LookupFor(peer.uid),
                                jobs.queue().memory_choice_context(), again));
    GPUMAN_TRY(CheckChanged(jobs, all.asked.changes, again));
    GPUMAN_TRY(HasEnded(*job));
  }
  again.spec.Change([&](spec::JobSpec& spec) {
    for (auto& depends : spec.depends.list)
      if (const auto number = all.numbers.find(depends.job); number != all.numbers.end())
        depends.job = number->second;
  });
  GPUMAN_TRY(ChooseAnew(jobs, again, all.memory));
  again.spec = all.specs.Share(again.spec);
  again.id = {all.first.value + static_cast<std::int64_t>(at)};
  all.numbers[all.old[at]] = again.id;
  all.prepared.push_back(std::move(again));
  return {};
}

api::SubmissionAnswer AnswerFor(JobsModule& jobs, Redoing& all, const std::vector<base::JobId>& ids) {
  api::SubmissionAnswer answer;
  for (const auto id : ids) answer.jobs.push_back(SubmittedOf(jobs, id, /*viewed=*/true));
  const std::size_t more = all.left_out.size() > kNotes ? all.left_out.size() - kNotes : 0;
  all.left_out.resize(all.left_out.size() - more);
  if (more > 0) all.left_out.push_back(fmt::format("and {} more jobs of others", more));
  answer.notes = std::move(all.left_out);
  for (const auto& note : all.memory)
    if (answer.notes.size() < 2 * kNotes) answer.notes.push_back(note);
  return answer;
}

// True: there is more to do.
base::Result<bool> Continue(JobsModule& jobs, const http::Peer& peer, Redoing& all,
                            const base::TimeSlice& turn) {
  for (; all.checked < all.ended.size(); ++all.checked) {
    if (turn.IsOver()) return true;
    AddToCascade(jobs, peer, all, all.ended[all.checked]);
  }
  if (all.first.value == 0) {
    GPUMAN_TRY(ClaimAll(jobs, all));
    all.first = jobs.core().jobs().Reserve(all.old.size());
  }
  while (all.prepared.size() < all.old.size()) {
    if (turn.IsOver()) return true;
    GPUMAN_TRY(MakeAnew(jobs, peer, all));
  }
  return false;
}

base::Result<> Redo(JobsModule& jobs, const RedoCall& call, const std::vector<base::JobId>& ids) {
  if (const auto* const run = ids.size() == 1 ? jobs.core().jobs().Find(ids.front()) : nullptr;
      run && !run->queued && !call.body().cascade)
    return RunAgain(jobs, call, *run);
  const auto all =
      std::make_shared<Redoing>(Redoing{ids, call.TakeBody(), ids.size()});  // shared by its slices
  all->found.insert(ids.begin(), ids.end());
  if (all->asked.cascade) all->ended = jobs.core().jobs().index().Ended();
  jobs.core().slices().Add(call.peer().uid, [&jobs, call, all](const base::TimeSlice& turn) {
    const auto more = Continue(jobs, call.peer(), *all, turn);
    if (!more) {
      call.Refuse(more.error());
      return false;
    }
    if (*more) return true;
    jobs.queue().dispatcher().Submit(std::move(all->prepared),
                                     call.After([&jobs, all](const std::vector<base::JobId>& done) {
                                       return AnswerFor(jobs, *all, done);
                                     }),
                                     std::move(all->claim));
    return false;
  });
  return {};
}

}  // namespace

void JobsModule::AddRedoRoutes(http::Router& router) {
  ServeJobs(*this, queue(), router, api::routes::kRedoJob, Redo);
}

}  // namespace gpuman::daemon
