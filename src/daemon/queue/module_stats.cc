// Statistics of all jobs: sums of the accounts of runs, and of jobs that have not ended.
#include <memory>
#include <utility>

#include "daemon/queue/module.h"
#include "daemon/queue/stats_collector.h"
#include "daemon/queue/views.h"

namespace gpuman::daemon {
namespace {

// Statistics that are being made for a client.
struct Collection {
  StatsCollector collector;
  std::shared_ptr<bool> gone;
  std::function<void(base::Result<api::StatsView>)> done;
  base::Result<bool> more_runs{true};
  api::StatsView made{};  // once there are no more runs
};

// Adds runs until there are no more, some whenever it is the party's turn. When the client has gone, the
// adding stops, and the loop destroys the sums.
void AddRuns(Core& core, base::Party who, const std::shared_ptr<Collection>& stats) {
  const auto read = [stats](jobs::Store& store) {
    stats->more_runs = stats->collector.AddRuns(store);
    if (stats->more_runs && !*stats->more_runs) stats->made = stats->collector.View();
  };
  const auto then = [&core, who, stats] {
    if (*stats->gone) return;
    if (!stats->more_runs) return stats->done(base::Fail(stats->more_runs.error()));
    if (*stats->more_runs) return AddRuns(core, who, stats);
    stats->done(std::move(stats->made));
  };
  const auto waits =
      core.ReadStore(who, {.read = read, .then = then, .is_cancelled = [stats] { return *stats->gone; }});
  if (!waits) stats->done(base::Fail(waits.error()));
}

}  // namespace

void QueueModule::AddUp(Stats stats, base::WallTime since, base::WallTime until, base::Party who,
                        std::shared_ptr<bool> gone, std::function<void(base::Result<api::StatsView>)> done) {
  auto with_shares = [this, done = std::move(done)](base::Result<api::StatsView> view) {
    if (view) ShowFairShares(dispatcher_->updater().View(core_.clock().Mono()), core_.clock().Wall(), *view);
    done(std::move(view));
  };
  const auto collection = std::make_shared<Collection>(
      Collection{StatsCollector(std::move(stats), since, until), std::move(gone), std::move(with_shares)});
  core_.slices().Add(who, [this, who, collection](const base::TimeSlice& slice) {
    if (*collection->gone) return false;
    if (collection->collector.AddJobs(core_.jobs().index(), slice)) return true;
    AddRuns(core_, who, collection);
    return false;
  });
}

}  // namespace gpuman::daemon
