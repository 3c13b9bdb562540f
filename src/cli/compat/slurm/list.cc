#include "cli/compat/slurm/list.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/compat/slurm/follow.h"

namespace gpuman::cli::slurm {
namespace {

base::Result<std::vector<JobLine>> Ask(const Engine& engine, std::vector<Submitted> kept,
                                       const api::QueueFilter& filter) {
  GPUMAN_ASSIGN(const auto seen, engine.programs.Queue());
  for (auto& job : kept) {
    const bool goes_on = std::any_of(seen.begin(), seen.end(), [&](const SeenJob& one) {
      return one.job == job.id && !spec::IsEnded(one.state);
    });
    if (job.ended || goes_on) continue;
    (void)LookUp(engine, {job.id, {}});  // records how the job ended, if that is known
    if (auto now = engine.record.Find(job.id)) job = std::move(*now);
  }
  auto lines = LinesOf(seen, kept);
  std::erase_if(lines, [&](const JobLine& line) { return !IsChosen(line, filter); });
  return lines;
}

}  // namespace

bool ServesAlone(const Session& session) {
  const bool names_daemon = session.socket || session.environment()("GPUMAN_SOCKET");
  return !names_daemon && !SubmissionFile::OfUser(session.environment()).Jobs().empty();
}

std::optional<std::vector<JobLine>> List(Session& session, const api::QueueFilter& filter) {
  const Engine engine(session);
  auto kept = engine.record.Jobs();
  const bool could_show = std::any_of(
      kept.begin(), kept.end(), [&](const Submitted& job) { return !filter.states.empty() || !job.ended; });
  if (!could_show) return std::nullopt;
  auto lines = Ask(engine, std::move(kept), filter);
  if (lines) return std::move(*lines);
  session.Note("Slurm's part is missing: " + lines.error().message);
  return std::vector<JobLine>();
}

void PrintList(Session& session, const std::vector<JobLine>& jobs, bool apart) {
  if (jobs.empty()) return;
  session.Print(fmt::format("{}In Slurm:\n{}", apart ? "\n" : "",
                            RenderTable(jobs, session.style(), base::SystemClock().Wall())));
}

api::Json ListJson(const std::vector<JobLine>& jobs) {
  auto list = api::Json::array();
  for (const auto& job : jobs) list.push_back(ToJson(job));
  return list;
}

}  // namespace gpuman::cli::slurm
