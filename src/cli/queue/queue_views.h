// Renders the queue's other answers for people. Pure functions; each text ends with a line end.
#pragma once

#include <string>

#include "api/queue_types.h"
#include "cli/text.h"

namespace gpuman::cli::queue {

// All that is known of one job.
std::string RenderJob(const api::JobView& job, const std::vector<api::GpuView>& gpus,
                      const TerminalStyle& style, base::WallTime now);
// GPUs with what keeps each of them from new jobs, then settings that are not the defaults. Of
// `reservations`, those that hold now are shown.
std::string RenderInfo(const api::QueueInfo& info, const std::vector<api::Reservation>& reservations,
                       const TerminalStyle& style, base::WallTime now);
// The connection between each pair of GPUs.
std::string RenderTopology(const api::QueueInfo& info, const TerminalStyle& style);
std::string RenderReservations(const std::vector<api::Reservation>& list,
                               const std::vector<api::QueueGpu>& gpus, const TerminalStyle& style,
                               base::WallTime now);
std::string RenderQuotas(const std::vector<api::Quota>& quotas, const TerminalStyle& style);
// Leaves of stats by user only those of `user`.
void KeepUser(api::StatsView& stats, const std::string& user);
std::string RenderStats(const api::StatsView& stats, const TerminalStyle& style);
// The memory that jobs had for themselves and never used, the most first.
std::string RenderWaste(const api::StatsView& stats, const TerminalStyle& style);
std::string RenderStatsCsv(const api::StatsView& stats);
std::string RenderIgnored(const std::vector<api::IgnoreRuleView>& rules,
                          const std::vector<api::QueueGpu>& gpus, const TerminalStyle& style);

// The index of a GPU, or the beginning of the UUID of one that is gone.
std::string IndexOf(const api::QueueGpu& gpu);
// The jobs on a GPU: "7 (train), 9 (eval)".
std::string JobsOn(const api::QueueGpu& gpu);
// The word of the state; instead of "drained" what the GPU is: "unhealthy", "lost", "unhealthy, drained".
std::string StateOf(const api::QueueGpu& gpu);
// Indices of GPUs, or the beginning of a UUID whose GPU is gone: "0,2".
std::string IndicesOf(const std::vector<std::string>& uuids, const std::vector<api::QueueGpu>& gpus);

}  // namespace gpuman::cli::queue
