// Statistics of all jobs: sums of the accounts of runs, and of jobs that have not ended.
#include <memory>
#include <utility>

#include "daemon/queue/module.h"
#include "daemon/queue/views.h"

namespace gpuman::daemon {
namespace {

constexpr std::size_t kRunsAtOnce = 1000;  // read from the store at a time, which takes some milliseconds

// Sums that are being made. The loop adds the jobs and the store's thread adds the runs, one after the other.
struct Adding {
  Stats stats;
  std::shared_ptr<bool> gone;
  base::WallTime until;
  std::function<void(base::Result<api::StatsView>)> done;
  base::JobId at{};                    // jobs up to this one have been added
  jobs::Store::RunCursor runs_from{};  // runs up to there have been added
  base::Result<> read{};
  std::optional<api::StatsView> made{};  // when all have been added
};

void AddSomeRuns(jobs::Store& store, Adding& adding) {
  adding.read = store.SomeRuns(adding.runs_from, adding.until, kRunsAtOnce,
                               [&](const jobs::RunAccount& run) { adding.stats.Add(run); });
  // Of many runs this takes longer than others may wait for the loop.
  if (adding.read && adding.runs_from.done) adding.made = adding.stats.View();
}

// Adds runs until there are no more, some whenever it is the party's turn. When the client has gone, the
// adding stops, and the loop destroys the sums.
void AddRuns(Core& core, base::Party who, const std::shared_ptr<Adding>& adding) {
  const auto waits =
      core.ReadStore(who, {.read = [adding](jobs::Store& store) { AddSomeRuns(store, *adding); },
                           .then =
                               [&core, who, adding] {
                                 if (*adding->gone) return;
                                 if (!adding->read) return adding->done(base::Fail(adding->read.error()));
                                 if (!adding->made) return AddRuns(core, who, adding);
                                 adding->done(std::move(*adding->made));
                               },
                           .is_cancelled = [adding] { return *adding->gone; }});
  if (!waits) adding->done(base::Fail(waits.error()));
}

}  // namespace

void QueueModule::AddUp(Stats stats, base::WallTime since, base::WallTime until, base::Party who,
                        std::shared_ptr<bool> gone, std::function<void(base::Result<api::StatsView>)> done) {
  auto with_shares = [this, done = std::move(done)](base::Result<api::StatsView> view) {
    if (view) ShowFairShares(dispatcher_->updater().View(core_.clock().Mono()), core_.clock().Wall(), *view);
    done(std::move(view));
  };
  const auto adding = std::make_shared<Adding>(
      Adding{std::move(stats), std::move(gone), until, std::move(with_shares), {}, {.ended = since}});
  core_.slices().Add(who, [this, who, adding](const base::TimeSlice& turn) {
    while (!turn.IsOver() && !*adding->gone) {
      const auto* const job = core_.jobs().index().After(adding->at);
      if (!job) {
        AddRuns(core_, who, adding);
        return false;
      }
      adding->at = job->id;
      if (!jobs::IsEnded(*job)) adding->stats.Add(*job);
    }
    return !*adding->gone;
  });
}

}  // namespace gpuman::daemon
