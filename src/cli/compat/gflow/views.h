// The output of gjob and gstats, with gflow's keys and headings. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/queue_types.h"
#include "base/clock.h"
#include "cli/text.h"

namespace gpuman::cli::gflow {

// gjob show: gflow's keys in gflow's order; the fields that only gpuman has (Reason, Project, Log) have keys
// of the same form.
std::string RenderJob(const api::JobView& job, const std::vector<api::GpuView>& gpus, base::WallTime now);

// gstats. `user`: the user whose jobs are counted; `since`: the period, in the user's words.
std::string RenderStats(const api::StatsRow& row, const std::string& user, const std::string& since,
                        const TerminalStyle& style);
// gstats -o csv: a line for each metric.
std::string RenderStatsCsv(const api::StatsRow& row);

}  // namespace gpuman::cli::gflow
