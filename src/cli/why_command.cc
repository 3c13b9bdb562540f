// why: what became of a job.
#include "cli/commands.h"
#include "cli/show.h"
#include "cli/story_views.h"

namespace gpuman::cli {
namespace {

base::Result<int> Why(Session& session, const CommandLine& line) {
  GPUMAN_ASSIGN(const auto story, AskDaemon(session, api::routes::kWhyJob, {{line.words.front()}}));
  return Show(session, story, RenderStory);
}

}  // namespace

Command WhyCommand() {
  return {
      "why", "Show why a job waits, runs or ended, and what to do", "gpuman why train", {JobArgument()}, {},
      Why};
}

}  // namespace gpuman::cli
