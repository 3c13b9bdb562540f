// why: what became of a job.
#include <utility>

#include "cli/commands.h"
#include "cli/queue/named_jobs.h"
#include "cli/show.h"
#include "cli/story_views.h"

namespace gpuman::cli {
namespace {

base::Result<int> Why(Session& session, const CommandLine& line) {
  GPUMAN_ASSIGN(const auto jobs, queue::JobsNamed(session, line.words));
  bool first = true;
  return queue::ForEachJob(session, jobs, [&](const std::string& job) -> base::Result<int> {
    GPUMAN_ASSIGN(const auto story, AskDaemon(session, api::routes::kWhyJob, {{job}}));
    if (!std::exchange(first, false) && !session.json) session.Print("\n");
    return Show(session, story, RenderStory);
  });
}

}  // namespace

Command WhyCommand() {
  return {
      "why", "Show why a job waits, runs or ended, and what to do", "gpuman why train", {JobArgument()}, {},
      Why};
}

}  // namespace gpuman::cli
