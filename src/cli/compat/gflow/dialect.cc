#include "cli/compat/gflow/dialect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "cli/command_line.h"
#include "cli/compat/gflow/options.h"
#include "cli/compat/gflow/views.h"
#include "cli/queue/request.h"
#include "cli/queue/script.h"

namespace gpuman::cli::gflow {
namespace {

constexpr std::array<queue::CommandDialect::OtherName, 2> kOtherNames{{
    {"--memory", "--gpu-memory"},
    {"--host-memory", "--memory"},
}};

// Removes limits of GPU memory from a job without GPUs, since gflow accepts such limits.
void Forgive(api::Submission& job) {
  if (job.gpus.count > 0 || !job.gpus.devices.empty()) return;
  job.memory.reset();
  job.share = false;
}

// Programs of gflow's users expect indices in CUDA_VISIBLE_DEVICES.
void NameDevicesByIndex(std::map<std::string, std::string>& environment) {
  environment.emplace(queue::kVisibleDevices, "index");
}

void Prepare(api::SubmitRequest& request) {
  NameDevicesByIndex(request.environment);
  for (auto& job : request.jobs) {
    Forgive(job);
    if (job.environment) NameDevicesByIndex(*job.environment);
  }
}

// Gives the tasks of an array their index under gflow's name, also where the name stands in quotes in the
// command's words.
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

void Complete(api::SubmitRequest& request) {
  std::for_each(request.jobs.begin(), request.jobs.end(), NameTask);
}

std::string Submitted(std::string_view id, std::string_view tag) {
  return fmt::format("Submitted batch job {} ({})\n", id, Printable(tag));
}

}  // namespace

constinit const queue::CommandDialect kDialect{
    .mark = "GFLOW",
    .marks_anywhere = true,
    .how_to_submit = "gbatch --gpus 1 COMMAND ARGUMENTS…, or gbatch SCRIPT",
    .other_names = kOtherNames,
    .submit_options = &GbatchOptions,
    .update_options = &GjobOptions,
    .prepare = &Prepare,
    .complete = &Complete,
    .render_job = [](const api::JobView& job, const std::vector<api::GpuView>& gpus, const TerminalStyle&,
                     base::WallTime now) { return RenderJob(job, gpus, now); },
    .submitted = &Submitted};

}  // namespace gpuman::cli::gflow
