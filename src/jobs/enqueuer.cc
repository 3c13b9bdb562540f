#include "jobs/enqueuer.h"

#include <sys/types.h>

#include <utility>

namespace gpuman::jobs {
namespace {

constexpr std::size_t kMaxAtOnce = base::SlicedWork::kMaxAtOnce;
constexpr std::size_t kSome = 16;  // between two looks at the clock

}  // namespace

using base::Fail;
using base::Result;

Enqueuer::Enqueuer(base::Executor to_loop, StoreWorker& store, const base::Clock& clock, JobIndex& jobs,
                   SharedParts& parts, std::function<void(const Job&)> on_added)
    : store_(store),
      clock_(clock),
      jobs_(jobs),
      parts_(parts),
      on_added_(std::move(on_added)),
      slices_(std::move(to_loop), clock) {}

void Enqueuer::Number(Job& job, base::WallTime at) {
  if (job.id.value == 0) job.id = jobs_.Reserve();
  job.submitted_at = at;
  job.waiting_since = at;
  job.queued = true;
  parts_.Share(job);
}

// The job is on the disk.
void Enqueuer::TakeIn(Job job, std::vector<JobId>& ids) {
  ids.push_back(job.id);
  on_added_(jobs_.Add(std::move(job)));
}

void Enqueuer::Enqueue(std::vector<Job> jobs, Done done) {
  if (jobs.size() > kMaxAtOnce) return EnqueueMany(std::move(jobs), std::move(done));
  const base::WallTime now = clock_.Wall();
  for (Job& job : jobs) Number(job, now);
  Batch batch;
  batch.put = jobs;
  auto on_stored =
      self_.Bind([jobs = std::move(jobs), done = std::move(done)](Enqueuer& me, const Result<>& stored) {
        if (!stored) return done(Fail(stored.error()));
        std::vector<JobId> ids;
        for (const Job& job : jobs) me.TakeIn(job, ids);
        done(std::move(ids));
      });
  store_.Submit(std::move(batch), std::move(on_stored));
}

void Enqueuer::EnqueueMany(std::vector<Job> jobs, Done done) {
  const uid_t user = jobs.front().owner->uid;
  // Ids without a gap: an arrival is known by its first and its last id (arrival.h).
  if (jobs.front().id.value == 0) {
    JobId id = jobs_.Reserve(jobs.size());
    for (Job& job : jobs) job.id = {id.value++};
  }
  const auto arrival = std::make_shared<Arrival>();  // shared by its slices
  arrival->at = clock_.Wall();
  arrival->done = std::move(done);
  arrival->jobs = std::make_shared<std::vector<Job>>(std::move(jobs));
  slices_.Add(user, [this, arrival](const base::TimeSlice& turn) {
    auto& next = arrival->next;
    for (; next < arrival->jobs->size(); ++next) {
      if (next % kMaxAtOnce == 0 && turn.IsOver()) return true;
      Number((*arrival->jobs)[next], arrival->at);
    }
    StoreArrival(arrival);
    return false;
  });
}

void Enqueuer::StoreArrival(const std::shared_ptr<Arrival>& arrival) {
  arrival->next = 0;
  Batch batch;
  batch.add = arrival->jobs;
  store_.Submit(std::move(batch), self_.Bind([arrival](Enqueuer& me, const Result<>& stored) {
    if (!stored) return arrival->done(Fail(stored.error()));
    arrival->ids.reserve(arrival->jobs->size());
    const uid_t user = arrival->jobs->front().owner->uid;
    me.slices_.Add(user, [&me, arrival](const base::TimeSlice& turn) {
      auto& next = arrival->next;
      for (; next < arrival->jobs->size(); ++next) {
        if (next % kSome == 0 && turn.IsOver()) return true;
        me.TakeIn(std::move((*arrival->jobs)[next]), arrival->ids);
      }
      arrival->done(std::move(arrival->ids));
      return false;
    });
  }));
}

}  // namespace gpuman::jobs
