#include "cli/compat/gflow/views.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <ctime>

#include "cli/local_time.h"
#include "cli/queue/listing.h"
#include "cli/queue/queue_views.h"
#include "cli/queue/when.h"
#include "cli/views.h"

namespace gpuman::cli::gflow {
namespace {

std::string Clock(base::Millis time) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  return fmt::format("{:02}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string Moment(base::WallTime time) { return fmt::format("{:%m/%d-%H:%M:%S}", LocalTime(time)); }

// A heading with "  KEY=VALUE" lines; the heading appears only if there are lines.
class Section {
 public:
  explicit Section(std::string_view title) : title_(title) {}
  void Add(std::string_view key, const std::string& value) {
    lines_ += fmt::format("  {}={}\n", key, Printable(value));
  }
  void Add(std::string_view key, const std::optional<std::string>& value) {
    if (value) Add(key, *value);
  }
  std::string Text() const {
    return lines_.empty() ? std::string() : fmt::format("\n{}:\n{}", title_, lines_);
  }

 private:
  std::string_view title_;
  std::string lines_;
};

std::string Details(const api::JobView& job) {
  Section section("Job Details");
  section.Add("ID", std::to_string(job.id));
  section.Add("Name", job.tag);
  section.Add("State", fmt::format("{} ({})", queue::LongState(job.state), queue::ShortState(job.state)));
  const auto& reason = job.reason_detail ? job.reason_detail : job.reason;
  if (reason) section.Add("Reason", queue::WithLocalTimes(*reason));
  section.Add("Priority", std::to_string(job.options.priority));
  section.Add("SubmittedBy", job.user);
  if (job.queue) {
    section.Add("Project", job.queue->asked.project);
    section.Add("GroupID", job.queue->asked.group);
    if (job.queue->asked.retries.count > 0)
      section.Add("MaxRetries", std::to_string(job.queue->asked.retries.count));
  }
  section.Add("Command", CommandText(job.command));
  return section.Text().substr(1);
}

std::string Resources(const api::JobView& job, const std::vector<api::GpuView>& gpus) {
  Section section("Resources");
  std::size_t count = job.gpus.size();
  if (job.queue && job.gpus.empty())
    count = std::max(job.queue->gpus.devices.size(),
                     static_cast<std::size_t>(std::max(job.queue->gpus.count, 0)));
  section.Add("GPUs", std::to_string(count));
  section.Add("GPUSharing", std::string(job.options.share ? "shared" : "exclusive"));
  if (job.memory.limit) section.Add("GPUMemoryLimit", base::FormatBytes(*job.memory.limit));
  if (job.started_at) section.Add("GPUIDs", queue::RowOf(job, gpus).gpus);
  if (job.queue) {
    if (job.queue->asked.host_memory)
      section.Add("MemoryLimit", base::FormatBytes(*job.queue->asked.host_memory));
    section.Add("CondaEnv", job.queue->asked.conda_env);
  }
  return section.Text();
}

std::string Execution(const api::JobView& job) {
  Section section("Execution");
  section.Add("WorkingDir", job.directory);
  section.Add("Log", job.log_path);
  if (job.exit_code) section.Add("ExitCode", std::to_string(*job.exit_code));
  if (job.signal) section.Add("Signal", std::to_string(*job.signal));
  return section.Text();
}

std::string DependenciesOf(const api::JobView& job) {
  Section section("Dependencies");
  if (!job.queue) return {};
  const auto& depends = job.queue->asked.depends;
  std::vector<std::string> names;
  for (const auto& [kind, name] : depends.list)
    names.push_back(
        kind == spec::DependencyKind::kAfterOk ? name : fmt::format("{}:{}", spec::ToString(kind), name));
  if (!names.empty()) {
    section.Add("DependsOn", fmt::format("{}", fmt::join(names, ",")));
    section.Add("Mode", std::string(depends.mode == spec::DependencyMode::kAny ? "Any" : "All"));
    section.Add("AutoCancel", std::string(job.queue->asked.auto_cancel ? "enabled" : "disabled"));
  }
  if (job.queue->array_task) section.Add("TaskID", std::to_string(*job.queue->array_task));
  return section.Text();
}

std::string Timing(const api::JobView& job, base::WallTime now) {
  Section section("Timing");
  if (job.queue && job.queue->asked.time_limit) section.Add("TimeLimit", Clock(*job.queue->asked.time_limit));
  if (job.queue && job.queue->asked.begin) section.Add("Begin", Moment(*job.queue->asked.begin));
  const auto span = [](base::WallTime from, base::WallTime to) {
    return Clock(std::max(base::Millis(0), std::chrono::duration_cast<base::Millis>(to - from)));
  };
  section.Add("Submitted", job.started_at ? fmt::format("{} (waited {})", Moment(job.submitted_at),
                                                        span(job.submitted_at, *job.started_at))
                                          : Moment(job.submitted_at));
  if (job.started_at)
    section.Add("Started", job.ended_at ? Moment(*job.started_at)
                                        : fmt::format("{} (running {} so far)", Moment(*job.started_at),
                                                      span(*job.started_at, now)));
  if (job.ended_at)
    section.Add("Finished", job.started_at ? fmt::format("{} (runtime {})", Moment(*job.ended_at),
                                                         span(*job.started_at, *job.ended_at))
                                           : Moment(*job.ended_at));
  return section.Text();
}

}  // namespace

std::string RenderJob(const api::JobView& job, const std::vector<api::GpuView>& gpus, base::WallTime now) {
  return Details(job) + Resources(job, gpus) + Execution(job) + DependenciesOf(job) + Timing(job, now);
}

std::string RenderStats(const api::StatsRow& row, const std::string& user, const std::string& since,
                        const TerminalStyle& style) {
  constexpr int kWide = 72;
  const auto head = [&](std::string_view title) { return Paint(style, Color::kBold, title); };
  const auto count = [&](std::string_view name, std::int64_t value) {
    const bool part = value > 0 && row.jobs > 0;
    return fmt::format(
        "  {:<17}{}{}\n", fmt::format("{}:", name), value,
        part ? fmt::format(" ({:.0f}%)", 100.0 * static_cast<double>(value) / static_cast<double>(row.jobs))
             : std::string());
  };
  const auto line = [](std::string_view name, const std::string& value) {
    return fmt::format("  {:<17}{}\n", fmt::format("{}:", name), value);
  };
  std::string text = fmt::format("{}  user: {}  since: {}  active: {}\n", head("Usage Statistics"),
                                 Printable(user), since, row.running + row.queued);
  for (int i = 0; i < kWide; ++i) text += "─";
  text += fmt::format("\n\n{}\n", head("Job Status"));
  text += line("Total Jobs", std::to_string(row.jobs));
  text += count("Completed", row.finished) + count("Failed", row.failed + row.killed) +
          count("Cancelled", row.cancelled) + count("Timeout", row.timeout);
  // The total counts jobs that have ended.
  text += line("Running", std::to_string(row.running)) + line("Queued", std::to_string(row.queued));
  text += fmt::format("\n{}\n", head("Efficiency"));
  const bool ran = row.finished + row.failed + row.killed + row.timeout > 0;
  text += line("Avg Wait Time", row.jobs > 0 ? Clock(row.wait_mean) : std::string("-"));
  text += line("Avg Runtime", ran ? Clock(row.run_mean) : std::string("-"));
  text += line("Total GPU-Hours", fmt::format("{:.1f}h", row.gpu_hours));
  text += line("Success Rate", row.success ? fmt::format("{:.1f}%", *row.success * 100) : std::string("-"));
  return text;
}

std::string RenderStatsCsv(const api::StatsRow& row) {
  const auto seconds_of = [](base::Millis value) {
    return fmt::format("{}", static_cast<double>(value.count()) / 1000);
  };
  const std::vector<std::pair<std::string_view, std::string>> metrics{
      {"total_jobs", fmt::to_string(row.jobs)},
      {"completed_jobs", fmt::to_string(row.finished)},
      {"failed_jobs", fmt::to_string(row.failed + row.killed)},
      {"cancelled_jobs", fmt::to_string(row.cancelled)},
      {"timeout_jobs", fmt::to_string(row.timeout)},
      {"running_jobs", fmt::to_string(row.running)},
      {"queued_jobs", fmt::to_string(row.queued)},
      {"avg_wait_secs", seconds_of(row.wait_mean)},
      {"avg_runtime_secs", seconds_of(row.run_mean)},
      {"total_gpu_hours", fmt::format("{:.4f}", row.gpu_hours)},
      {"success_rate", row.success ? fmt::format("{:.4f}", *row.success) : std::string()}};
  std::string text = "metric,value\n";
  for (const auto& [name, value] : metrics) text += fmt::format("{},{}\n", name, value);
  return text;
}

}  // namespace gpuman::cli::gflow
