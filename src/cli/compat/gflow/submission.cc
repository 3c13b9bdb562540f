#include "cli/compat/gflow/submission.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "cli/command_line.h"
#include "cli/queue/script.h"

namespace gpuman::cli::gflow {

void Forgive(api::Submission& job) {
  if (job.gpus.count > 0 || !job.gpus.devices.empty()) return;
  job.memory.reset();
  job.share = false;
}

void NameTask(api::Submission& job) {
  if (!job.array) return;
  constexpr std::string_view kName = "$GFLOW_ARRAY_TASK_ID";
  const std::string line = "export GFLOW_ARRAY_TASK_ID=\"$GPUMAN_ARRAY_TASK_ID\"";
  if (job.script) return queue::InsertLine(*job.script, line);
  std::string text = line + "; exec";
  for (const auto& word : job.command) {
    text += ' ';
    std::size_t at = 0;
    for (std::size_t found = 0; (found = word.find(kName, at)) != std::string::npos;
         at = found + kName.size())
      text += JoinCommand({word.substr(at, found - at)}) + fmt::format("\"{}\"", kName);
    text += JoinCommand({word.substr(at)});
  }
  job.command = {"/bin/sh", "-c", text};
}

}  // namespace gpuman::cli::gflow
