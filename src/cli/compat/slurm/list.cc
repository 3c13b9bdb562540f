// Queue::List.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/compat/slurm/follow.h"
#include "cli/compat/slurm/slurm_queue.h"

namespace gpuman::cli::slurm {
namespace {

base::Result<std::vector<SlurmJobView>> Ask(const SlurmContext& engine, std::vector<SubmissionRecord> kept,
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
  std::erase_if(lines, [&](const SlurmJobView& line) { return !IsChosen(line, filter); });
  return lines;
}

}  // namespace

bool SlurmQueue::ServesAlone(const CommandContext& session) const {
  const bool names_daemon = session.socket || session.environment()("GPUMAN_SOCKET");
  return !names_daemon && !SubmissionLog::OfUser(session.environment()).Jobs().empty();
}

std::optional<queue::ExternalQueueListing> SlurmQueue::List(CommandContext& session,
                                                            const api::QueueFilter& filter) const {
  const SlurmContext engine(session);
  auto kept = engine.record.Jobs();
  const bool could_show = std::any_of(kept.begin(), kept.end(), [&](const SubmissionRecord& job) {
    return !filter.states.empty() || !job.ended;
  });
  if (!could_show) return std::nullopt;
  queue::ExternalQueueListing list{api::Json::array(), {}};
  const auto lines = Ask(engine, std::move(kept), filter);
  if (!lines) session.Note("Slurm's part is missing: " + lines.error().message);
  if (!lines || lines->empty()) return list;
  for (const auto& line : *lines) list.json.push_back(ToJson(line));
  list.table = "In Slurm:\n" + RenderTable(*lines, session.style(), base::SystemClock().Wall());
  return list;
}

}  // namespace gpuman::cli::slurm
