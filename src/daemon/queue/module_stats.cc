// Statistics of all jobs: sums of the accounts of runs, and of jobs that have not ended.
#include <boost/asio/post.hpp>
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
};

}  // namespace

void QueueModule::AddUp(Stats stats, base::WallTime since, base::WallTime until, base::Party who,
                        std::shared_ptr<bool> gone, std::function<void(base::Result<api::StatsView>)> done) {
  const auto adding = std::make_shared<Adding>(
      Adding{std::move(stats), std::move(gone), until, std::move(done), {}, {.ended = since}});
  // When the client has gone, the adding stops, and the loop destroys the sums.
  const auto read_runs = std::make_shared<std::function<void()>>();
  *read_runs = [this, adding, weak = std::weak_ptr(read_runs)] {
    core_.store().Read([this, adding = adding, again = weak.lock()](jobs::Store& store) mutable {
      auto read = store.SomeRuns(adding->runs_from, adding->until, kRunsAtOnce,
                                 [&](const jobs::RunAccount& run) { adding->stats.Add(run); });
      // Of many runs this takes longer than others may wait for the loop.
      std::optional<api::StatsView> made;
      if (read && adding->runs_from.done) made = adding->stats.View();
      boost::asio::post(core_.loop(), [this, adding = std::move(adding), again = std::move(again),
                                       read = std::move(read), made = std::move(made)]() mutable {
        if (*adding->gone) return;
        if (!read) return adding->done(base::Fail(read.error()));
        if (!made) return (*again)();
        auto view = std::move(*made);
        ShowFairShares(dispatcher_->updater().View(core_.clock().Mono()), core_.clock().Wall(), view);
        adding->done(std::move(view));
      });
    });
  };
  core_.slices().Add(who, [this, adding, read_runs](const base::TimeSlice& turn) {
    while (!turn.IsOver() && !*adding->gone) {
      const auto* const job = core_.jobs().index().After(adding->at);
      if (!job) {
        (*read_runs)();
        return false;
      }
      adding->at = job->id;
      if (!jobs::IsEnded(*job)) adding->stats.Add(*job);
    }
    return !*adding->gone;
  });
}

}  // namespace gpuman::daemon
