#include "cli/views.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <tuple>

#include "cli/command_line.h"
#include "cli/local_time.h"
#include "cli/queue/named_jobs.h"
#include "cli/queue/when.h"
#include "cli/table.h"

namespace gpuman::cli {
namespace {

std::string Power(const std::optional<double>& watts) {
  return watts ? fmt::format("{:.0f}W", *watts) : std::string(kUnknown);
}

// "[#####     ]": full when the last byte is used, empty only when no byte is used.
std::string Bar(const api::MemoryView& memory, std::size_t cells) {
  if (memory.total.count == 0) return {};
  const double part =
      std::min(1.0, static_cast<double>(memory.used.count) / static_cast<double>(memory.total.count));
  const auto filled = static_cast<std::size_t>(std::ceil(part * static_cast<double>(cells)));
  return "[" + std::string(filled, '#') + std::string(cells - filled, ' ') + "] ";
}

std::string MemoryText(const api::GpuView& gpu, const TerminalStyle& style) {
  if (!gpu.memory) return std::string(kUnknown);
  constexpr std::size_t kCells = 10;
  return (style.terminal ? Bar(*gpu.memory, kCells) : std::string()) +
         fmt::format("{} / {}", base::FormatBytes(gpu.memory->used), base::FormatBytes(gpu.memory->total));
}

Color MemoryColor(const api::GpuView& gpu) {
  if (!gpu.memory || gpu.memory->total.count == 0) return Color::kNone;
  const double part =
      static_cast<double>(gpu.memory->used.count) / static_cast<double>(gpu.memory->total.count);
  return part >= 0.95 ? Color::kRed : part >= 0.8 ? Color::kYellow : Color::kGreen;
}

std::string Age(const api::JobView& job, base::WallTime now) {
  if (!job.started_at) return std::string(kUnknown);
  const auto elapsed = job.ended_at.value_or(now) - *job.started_at;
  // Whole seconds are enough for people; a clock that was set back must not show a negative time.
  const auto seconds = std::chrono::floor<std::chrono::seconds>(std::max(elapsed, base::Millis(0)));
  return seconds.count() == 0 ? "0s"
                              : base::FormatDuration(std::chrono::duration_cast<base::Millis>(seconds));
}

// The indices of the GPUs that a job has or had, or the beginning of the UUID of a GPU that is gone; "-": the
// job has not started; "none": it runs or ran without a GPU.
std::string GpusOf(const api::JobView& job, const std::vector<api::GpuView>& gpus) {
  // The daemon lists all GPUs for a job that may use all, also when it ended without a start.
  if (spec::IsWaiting(job.state) || (spec::IsEnded(job.state) && !job.started_at)) return "-";
  if (job.gpus.empty()) return "none";
  const auto whole = static_cast<std::size_t>(
      std::count_if(gpus.begin(), gpus.end(), [](const auto& gpu) { return !gpu.mig && !gpu.split; }));
  if (whole > 1 && job.gpus.size() == whole) return "all";
  return api::NumbersOf(job.gpus, gpus);
}

std::string LimitText(const api::JobView& job) {
  return job.memory.limit ? base::FormatBytes(*job.memory.limit) : std::string("none");
}

// Whether a message of the daemon begins with the job that it is about, as the guard's messages do.
bool NamesJob(std::string_view message, std::int64_t job) {
  return message.starts_with(fmt::format("job {} ", job));
}

// Jobs that have one line.
struct Group {
  std::vector<const api::JobView*> jobs;
  std::string name;  // "lr-*": how commands name the jobs that were submitted together
};

// Jobs that were submitted together (an array, a sweep) and wait, or ended in the same way, have one line.
// `jobs` are in order of id.
std::vector<Group> Grouped(const std::vector<api::JobView>& jobs) {
  using Word = std::optional<std::string>;
  std::vector<Group> groups;
  std::map<std::pair<std::string, base::WallTime>, std::vector<std::string_view>> tags;
  std::map<std::tuple<std::string, base::WallTime, spec::JobState, Word, Word>, std::size_t> known;
  for (const auto& job : jobs) {
    tags[{job.user, job.submitted_at}].push_back(job.tag);
    const bool ended = spec::IsEnded(job.state);
    if (!spec::IsWaiting(job.state) && !ended) {
      groups.push_back({{&job}, {}});
      continue;
    }
    // The sentences of waiting jobs may differ, since each has its place in the queue.
    const auto [it, fresh] = known.try_emplace(
        {job.user, job.submitted_at, job.state, job.reason, ended ? job.reason_detail : Word()},
        groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].jobs.push_back(&job);
  }
  for (auto& group : groups) {
    const auto& first = *group.jobs.front();
    if (group.jobs.size() > 1) group.name = queue::NameOfSweep(tags[{first.user, first.submitted_at}]);
  }
  return groups;
}

// The value that all jobs of the group share.
template <typename Text>
std::string OfAll(const Group& group, const Text& text_of) {
  const std::string first = text_of(*group.jobs.front());
  const bool same = std::all_of(group.jobs.begin(), group.jobs.end(),
                                [&](const auto* job) { return text_of(*job) == first; });
  return same ? first : "various";
}

// A range has no job in it that is not of the group: people give to commands what they see. "3…90" is none.
std::string IdsOf(const Group& group) {
  constexpr std::size_t kWidest = 15;
  std::vector<std::int64_t> ids;
  for (const auto* job : group.jobs) ids.push_back(job->id);
  const std::string text = JoinIds(ids);
  return text.size() <= kWidest ? text : fmt::format("{}…{}", ids.front(), ids.back());
}

// "arr (30)", "lr-* (30)", "(30 jobs)".
std::string TagOf(const Group& group) {
  if (group.jobs.size() == 1) return group.jobs.front()->tag;
  if (group.name.empty()) return fmt::format("({} jobs)", group.jobs.size());
  return fmt::format("{} ({})", group.name, group.jobs.size());
}

// Returns the common start of two words, up to a mark: "--lr=" of "--lr=0.1" and "--lr=0.01", "" of 0.1 and
// 0.01.
std::string_view CommonStart(std::string_view one, std::string_view other) {
  const auto end = std::mismatch(one.begin(), one.end(), other.begin(), other.end()).first;
  const auto common = one.substr(0, static_cast<std::size_t>(end - one.begin()));
  const auto mark = common.find_last_of("=/:");
  return common.substr(0, mark == std::string_view::npos ? 0 : mark + 1);
}

// The words that the commands of all jobs of the group have in common; "…" stands where they differ.
std::string CommandOf(const Group& group) {
  const auto& first = group.jobs.front()->command;
  std::vector<std::string_view> common(first.begin(), first.end());
  bool same_length = true;
  for (const auto* const job : group.jobs) {
    const auto& words = job->command;
    same_length = same_length && words.size() == first.size();
    common.resize(std::min(common.size(), words.size()));
    for (std::size_t i = 0; i < common.size(); ++i)
      if (common[i] != words[i]) common[i] = CommonStart(common[i], words[i]);
  }
  std::string text;
  for (std::size_t i = 0; i < common.size(); ++i) {
    const bool whole = common[i].size() == first[i].size();
    if (i > 0) text += ' ';
    if (whole || !common[i].empty()) text += CommandText({std::string(common[i])});
    if (!whole) text += "…";
  }
  return same_length ? text : text + " …";
}

// For a job that has not ended; a failed job has the refusal in its reason.
std::string RefusalNote(const api::JobView& job, base::WallTime now) {
  if (!job.refusal || spec::IsEnded(job.state)) return {};
  const auto age = std::chrono::floor<std::chrono::seconds>(std::max(now - job.refusal->at, base::Millis(0)));
  if (age.count() == 0) return fmt::format("{} (just now)", Printable(job.refusal->message));
  return fmt::format("{} ({} ago)", Printable(job.refusal->message), base::FormatDuration(age));
}

std::string Notes(const api::StatusView& status, const TerminalStyle& style, base::WallTime now) {
  std::string text;
  for (const auto& gpu : status.gpus)
    for (const auto& reason : gpu.health.reasons)
      text += fmt::format(
          "{} {}\n", Paint(style, HealthColor(gpu.health.state), fmt::format("GPU {}:", api::NumberOf(gpu))),
          Printable(reason));
  for (const auto& group : Grouped(status.jobs)) {
    const auto& job = *group.jobs.front();
    if (job.unshimmed && !job.unshimmed->empty()) {
      text += Paint(style, Color::kYellow, fmt::format("job {} {}: ", job.id, Printable(job.tag))) +
              fmt::format("pid {} not counted by libgpuman.so; only the daemon enforces the limit\n",
                          fmt::join(*job.unshimmed, ", "));
    }
    if (const auto refusal = RefusalNote(job, now); !refusal.empty())
      text += Paint(style, Color::kYellow, fmt::format("job {} {}: ", job.id, Printable(job.tag))) + refusal +
              "\n";
    if (!job.reason_detail) continue;
    const std::string name = NamesJob(*job.reason_detail, job.id)
                                 ? std::string()
                                 : fmt::format("job {} {}: ", IdsOf(group), Printable(TagOf(group)));
    text += Paint(style, StateColor(job.state), name) + Printable(queue::WithLocalTimes(*job.reason_detail)) +
            "\n";
  }
  return text;
}

Table GpuTable() {
  return Table({{"GPU"},
                {"NAME", Align::kLeft, 10},
                {"MEMORY"},
                {"UTIL", Align::kRight},
                {"TEMP", Align::kRight},
                {"POWER", Align::kRight},
                {"HEALTH"}});
}

// A narrow terminal does not show the column PEAK.
bool ShowsPeak(const TerminalStyle& style) { return style.width.value_or(SIZE_MAX) >= 100; }

Table JobTable(const TerminalStyle& style) {
  std::vector<Column> columns{
      {"ID", Align::kRight},       {"TAG", Align::kLeft, 12}, {"USER", Align::kLeft, 5},
      {"STATE", Align::kLeft, 12}, {"GPU", Align::kLeft, 4},  {"MEMORY", Align::kRight},
      {"LIMIT", Align::kRight},    {"TIME", Align::kRight},   {"COMMAND", Align::kLeft, 9}};
  if (ShowsPeak(style)) columns.insert(columns.begin() + 7, Column{"PEAK", Align::kRight});
  return Table(std::move(columns));
}

std::string LeftOut(const api::StatusView& status) {
  std::string text;
  if (status.waiting_left_out > 0)
    text += fmt::format("{} more wait: gpuman queue lists them.\n", status.waiting_left_out);
  if (status.ended_left_out > 0)
    text += fmt::format("{} more ended earlier: gpuman status --all lists them.\n", status.ended_left_out);
  return text;
}

}  // namespace

Color StateColor(spec::JobState state) {
  switch (state) {
    case spec::JobState::kRunning:
      return Color::kGreen;
    case spec::JobState::kFailed:
    case spec::JobState::kKilled:
    case spec::JobState::kTimeout:
      return Color::kRed;
    case spec::JobState::kFinished:
    case spec::JobState::kCancelled:
      return Color::kDim;
    default:
      return Color::kYellow;
  }
}

Color HealthColor(std::string_view state) {
  return state == "healthy"     ? Color::kGreen
         : state == "degraded"  ? Color::kYellow
         : state == "unhealthy" ? Color::kRed
                                : Color::kDim;
}

std::string ProcessCommand(const api::ProcessView& process) {
  if (!process.command.empty()) return JoinCommand(process.command);
  return process.name.value_or(std::string(kUnknown));
}

std::string CommandText(const std::vector<std::string>& command) {
  std::string text;
  for (const auto& word : command) {
    if (!text.empty()) text += ' ';
    text += word == "{script}" ? "(its script)" : JoinCommand({word});
  }
  return text;
}

std::string SizeText(const std::optional<base::Bytes>& size) {
  return size ? base::FormatBytes(*size) : std::string(kUnknown);
}

std::string StateText(const api::JobView& job) {
  std::string why;
  if (job.reason)
    why = *job.reason;
  else if (job.signal)
    why = fmt::format("signal {}", *job.signal);
  else if (job.exit_code && *job.exit_code != 0)
    why = fmt::format("exit {}", *job.exit_code);
  const std::string state(spec::ToString(job.state));
  return why.empty() || why == state ? state : fmt::format("{} ({})", state, why);
}

std::string RenderGpus(const std::vector<api::GpuView>& gpus, const TerminalStyle& style) {
  Table table = GpuTable();
  for (const auto& gpu : gpus)
    table.Add({api::NumberOf(gpu), gpu.name, Cell(MemoryText(gpu, style), MemoryColor(gpu)),
               NumberText(gpu.utilization_gpu, "%"), NumberText(gpu.temperature_c, "C"), Power(gpu.power_w),
               Cell(gpu.health.state, HealthColor(gpu.health.state))});
  return table.Render(style);
}

std::string RenderJobs(const std::vector<api::JobView>& jobs, const std::vector<api::GpuView>& gpus,
                       const TerminalStyle& style, base::WallTime now) {
  Table table = JobTable(style);
  for (const auto& group : Grouped(jobs)) {
    const auto& job = *group.jobs.front();
    std::vector<Cell> row{IdsOf(group),
                          TagOf(group),
                          job.user,
                          Cell(StateText(job), StateColor(job.state)),
                          OfAll(group, [&](const auto& one) { return GpusOf(one, gpus); }),
                          OfAll(group, [](const auto& one) { return SizeText(one.memory.used); }),
                          OfAll(group, LimitText),
                          OfAll(group, [&](const auto& one) { return Age(one, now); }),
                          CommandOf(group)};
    if (ShowsPeak(style))
      row.insert(row.begin() + 7,
                 Cell(OfAll(group, [](const auto& one) { return SizeText(one.memory.peak); })));
    table.Add(std::move(row));
  }
  return table.Render(style);
}

std::string RenderStatus(const api::StatusView& status, const TerminalStyle& style, base::WallTime now) {
  std::string text;
  if (!status.gpus.empty())
    text = RenderGpus(status.gpus, style);
  else
    text = fmt::format("No GPUs: {}\n", Printable(status.driver_error.value_or("the driver shows none")));
  text += '\n';
  text += status.jobs.empty() ? std::string("No jobs.\n") : RenderJobs(status.jobs, status.gpus, style, now);
  text += LeftOut(status);
  if (const auto notes = Notes(status, style, now); !notes.empty()) text += '\n' + notes;
  return text;
}

std::string RenderGpu(const api::GpuView& gpu, const TerminalStyle& style) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<14}{}\n", name, Printable(value));
  };
  line("GPU", api::NumberOf(gpu));
  line("UUID", gpu.uuid);
  line("Name", gpu.name);
  if (gpu.memory) {
    line("Memory used", SizeText(gpu.memory->used));
    line("Memory free", SizeText(gpu.memory->free));
    line("Memory total", fmt::format("{} ({} of it kept by the driver)", SizeText(gpu.memory->total),
                                     base::FormatBytes(gpu.memory->reserved)));
  } else {
    line("Memory", std::string(kUnknown));
  }
  line("Utilization", fmt::format("GPU {}, memory {}", NumberText(gpu.utilization_gpu, "%"),
                                  NumberText(gpu.utilization_memory, "%")));
  line("Temperature", NumberText(gpu.temperature_c, "C"));
  line("Power", Power(gpu.power_w));
  line("Health", gpu.health.state);
  for (const auto& reason : gpu.health.reasons) line("", reason);
  text += '\n';
  return text + RenderProcesses({gpu}, style);
}

std::string RenderProcesses(const std::vector<api::GpuView>& gpus, const TerminalStyle& style) {
  Table table({{"GPU"},
               {"PID", Align::kRight},
               {"USER", Align::kLeft, 5},
               {"MEMORY", Align::kRight},
               {"JOB", Align::kLeft, 8},
               {"COMMAND", Align::kLeft, 12}});
  for (const auto& gpu : gpus) {
    for (const auto& process : gpu.processes) {
      const std::string job = process.job      ? fmt::format("{} {}", *process.job, process.tag.value_or(""))
                              : process.gpuman ? "(gpuman)"
                                               : "-";
      table.Add({api::NumberOf(gpu), std::to_string(process.pid),
                 process.user.value_or(std::string(kUnknown)), SizeText(process.memory),
                 Cell(job, process.job ? Color::kCyan : Color::kNone), ProcessCommand(process)});
    }
  }
  return table.empty() ? "No process uses GPU memory.\n" : table.Render(style);
}

std::string RenderEvent(const api::EventView& event, const TerminalStyle& style) {
  // Local time, as in every log on the machine; --json has UTC.
  const std::tm local = LocalTime(event.at);
  std::string about;
  const bool named = event.job && NamesJob(event.message, *event.job);
  if (event.job && !named) about = fmt::format("job {}{}", *event.job, event.tag ? " " + *event.tag : "");
  if (event.gpu && !named) about += (about.empty() ? "" : " ") + event.gpu->substr(0, 12);
  const bool bad =
      event.kind.find("hard_limit") != std::string::npos || event.kind.find("killed") != std::string::npos ||
      event.kind.find("failed") != std::string::npos || event.kind.find("lost") != std::string::npos ||
      event.kind.find("pressure") != std::string::npos;
  const Color color = bad                                            ? Color::kRed
                      : event.kind.find("soft") != std::string::npos ? Color::kYellow
                                                                     : Color::kCyan;
  return fmt::format("{} {}{}{} {}\n", Paint(style, Color::kDim, fmt::format("{:%Y-%m-%d %H:%M:%S}", local)),
                     Paint(style, color, Printable(event.kind)), about.empty() ? "" : " ", Printable(about),
                     Printable(event.message));
}

std::string JobSentence(const api::JobView& job) {
  const bool ended = spec::IsEnded(job.state);
  std::string text = fmt::format("job {} '{}' {} {}", job.id, Printable(job.tag), ended ? "has ended:" : "is",
                                 Printable(StateText(job)));
  if (ended) return text;
  if (job.pid) text += fmt::format(" (pid {})", *job.pid);
  if (job.memory.limit) text += fmt::format(", at most {} on each GPU", base::FormatBytes(*job.memory.limit));
  return text;
}

}  // namespace gpuman::cli
