// ginfo: the GPUs in gflow's table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "cli/compat/gflow/commands.h"
#include "cli/queue/queue_views.h"
#include "cli/show.h"
#include "cli/table.h"
#include "cli/take.h"

namespace gpuman::cli::gflow {
namespace {

std::string Capital(std::string_view word) {
  std::string text(word);
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// PARTITION GPUS NODES STATE JOB(REASON), a line for all GPUs of one state and job.
std::string RenderInfo(const api::QueueInfo& info, const TerminalStyle& style) {
  struct Line {
    std::string state, job;
    std::vector<std::string> gpus;
  };
  std::vector<Line> lines;
  for (const auto& gpu : info.gpus) {
    const bool idle = gpu.state == "idle";
    std::string job = queue::JobsOn(gpu);
    if (!idle && job.empty()) job = fmt::format("({})", Capital(queue::StateOf(gpu)));
    const std::string state = idle ? "idle" : "allocated";
    auto it = std::find_if(lines.begin(), lines.end(),
                           [&](const Line& line) { return line.state == state && line.job == job; });
    if (it == lines.end()) it = lines.insert(lines.end(), Line{state, job, {}});
    it->gpus.push_back(queue::IndexOf(gpu));
  }
  std::stable_partition(lines.begin(), lines.end(), [](const Line& line) { return line.state == "idle"; });
  Table table({{"PARTITION"}, {"GPUS"}, {"NODES"}, {"STATE"}, {"JOB(REASON)"}});
  for (const auto& [state, job, gpus] : lines)
    table.Add({"gpu", std::to_string(gpus.size()), fmt::format("{}", fmt::join(gpus, ",")), state, job});
  return table.Render(style);
}

base::Result<int> Info(CommandContext& session, const CommandLine&) {
  GPUMAN_ASSIGN(const auto info, AskDaemon(session, api::routes::kQueueInfo, {}, {}, api::NoTimeout()));
  return Show(session, info, [&] { return RenderInfo(info, session.style()); });
}

}  // namespace

Command Ginfo() {
  return {"ginfo",
          "Show GPUs as the queue sees them: which are free, who has the others, and why",
          "ginfo",
          {},
          {{"--config", "FILE", "", take::Nothing()}},
          Info};
}

}  // namespace gpuman::cli::gflow
