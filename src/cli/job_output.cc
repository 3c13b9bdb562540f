#include "cli/job_output.h"

#include <fmt/format.h>

#include <filesystem>

#include "spec/file_name.h"

namespace gpuman::cli {
namespace {

std::string OutputFileReader(const std::string& pattern, const api::JobView& job) {
  const auto& queue = *job.queue;
  const auto name =
      spec::ExpandFileName(pattern, {job.id, queue.array_id, queue.array_task.value_or(0), job.tag});
  return (std::filesystem::path(job.directory) / name).lexically_normal().string();
}

}  // namespace

void TellOtherOutput(CommandContext& session, const api::Client& daemon, const std::string& ref) {
  const auto job = daemon.Job(ref);
  if (!job || !job->queue) return;
  const auto& queue = *job->queue;
  const auto& output = queue.asked.stdout_file;
  const auto& errors = queue.asked.stderr_file;
  if (output || errors)
    session.Note(fmt::format("job {} writes to {}{}{}", job->id,
                             output ? OutputFileReader(*output, *job) : "", output && errors ? " and " : "",
                             errors ? OutputFileReader(*errors, *job) : ""));
  if (queue.array_id && queue.array_id == job->id && ref.find('_') == std::string::npos)
    session.Note(fmt::format("this is task {0}_{1}; the others have logs of their own: {0}_INDEX",
                             *queue.array_id, queue.array_task.value_or(0)));
}

}  // namespace gpuman::cli
