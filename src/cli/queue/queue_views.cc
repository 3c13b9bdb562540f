#include "cli/queue/queue_views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <type_traits>
#include <utility>

#include "base/text.h"
#include "cli/queue/listing.h"
#include "cli/queue/when.h"
#include "cli/table.h"
#include "cli/views.h"

namespace gpuman::cli::queue {

std::string IndexOf(const api::QueueGpu& gpu) {
  return gpu.number || gpu.index ? api::NumberOf(gpu) : gpu.uuid.substr(0, 12);
}

std::string JobsOn(const api::QueueGpu& gpu) {
  std::string text;
  for (std::size_t i = 0; i < gpu.jobs.size(); ++i)
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", gpu.jobs[i],
                        i < gpu.tags.size() ? fmt::format(" ({})", gpu.tags[i]) : "");
  return text;
}

std::string StateOf(const api::QueueGpu& gpu) {
  return gpu.state == "drained" && !gpu.unfit.empty() ? fmt::format("{}", fmt::join(gpu.unfit, ", "))
                                                      : gpu.state;
}

namespace {

std::string ProcessText(const api::QueueProcess& process) {
  std::string text = fmt::format("pid {}", process.pid);
  if (process.user) text += fmt::format(" of {}", *process.user);
  if (process.name) text += fmt::format(", {}", *process.name);
  if (process.memory) text += fmt::format(", {}", base::FormatBytes(*process.memory));
  if (process.age) text += fmt::format(", for {}", base::FormatDuration(*process.age));
  if (process.idle) text += fmt::format(", idle for {}", base::FormatDuration(*process.idle));
  if (process.ignored) text += ", ignored";
  return text;
}

Color StateColor(std::string_view state) {
  return state == "idle"                              ? Color::kGreen
         : state == "unmanaged" || state == "drained" ? Color::kRed
         : state == "restricted"                      ? Color::kDim
                                                      : Color::kYellow;
}

// "3/8": used of allowed; "-" for no limit.
std::string Of(const std::optional<int>& used, const std::optional<int>& limit) {
  const auto number = [](const std::optional<int>& value) {
    return value ? fmt::to_string(*value) : std::string("-");
  };
  return number(used) + "/" + number(limit);
}

std::string HoursOf(const std::optional<double>& used, const std::optional<double>& limit) {
  return (used ? base::FormatUsedHours(*used) : "-") + "/" + (limit ? base::FormatHours(*limit) : "-");
}

std::string DependencyText(const spec::NamedDependencies& depends) {
  std::string text;
  for (const auto& [kind, job] : depends.list)
    text += fmt::format("{}{} {}",
                        text.empty()                                 ? ""
                        : depends.mode == spec::DependencyMode::kAny ? " or "
                                                                     : " and ",
                        spec::ToString(kind), job);
  return text;
}

std::string GpuRequestText(const spec::GpuRequest& gpus) {
  std::string text =
      gpus.devices.empty() ? std::to_string(gpus.count) : fmt::format("{}", fmt::join(gpus.devices, ","));
  if (gpus.model) text += fmt::format(", model {}", *gpus.model);
  if (gpus.free_memory)
    text += gpus.free_memory->IsRelative()
                ? fmt::format(", {}% free", gpus.free_memory->percent)
                : fmt::format(", {} free", base::FormatBytes(gpus.free_memory->bytes));
  return text;
}

Table StatsByNameTable() {
  return Table({{"NAME", Align::kLeft, 8},
                {"JOBS", Align::kRight},
                {"RUNS", Align::kRight},
                {"FINISHED", Align::kRight},
                {"FAILED", Align::kRight},
                {"RUN", Align::kRight},
                {"GPU-HOURS", Align::kRight},
                {"PEAK MEDIAN", Align::kRight},
                {"95%", Align::kRight},
                {"MOST", Align::kRight},
                {"OF RUNS", Align::kRight}});
}

// How long the runs of each name took, and how busy they kept their GPUs.
Table RunsByNameTable() {
  return Table({{"NAME", Align::kLeft, 8},
                {"TIME MEDIAN", Align::kRight},
                {"95%", Align::kRight},
                {"MOST", Align::kRight},
                {"OF RUNS", Align::kRight},
                {"UTIL MEDIAN", Align::kRight},
                {"95%", Align::kRight},
                {"MOST", Align::kRight},
                {"OF RUNS", Align::kRight}});
}

std::vector<Cell> RunsByNameCells(const api::StatsRow& row, const std::string& name) {
  const auto time = [&row](base::Millis api::RunTimeStats::*which) {
    return row.run_time ? Cell(FormatClock((*row.run_time).*which)) : Cell(std::string(kUnknown));
  };
  const auto percent = [&row](double api::UtilizationStats::*which) {
    return Cell(Rounded(row.utilization ? std::optional((*row.utilization).*which) : std::nullopt, "%"));
  };
  return {name,
          time(&api::RunTimeStats::median),
          time(&api::RunTimeStats::p95),
          time(&api::RunTimeStats::most),
          std::to_string(row.run_time ? row.run_time->runs : 0),
          percent(&api::UtilizationStats::median),
          percent(&api::UtilizationStats::p95),
          percent(&api::UtilizationStats::most),
          std::to_string(row.utilization ? row.utilization->runs : 0)};
}

std::vector<Cell> StatsByNameCells(const api::StatsRow& row, const std::string& name) {
  const auto size = [&row](base::Bytes api::PeakStats::*which) {
    return Cell(row.peak ? base::FormatBytes((*row.peak).*which) : "n/a");
  };
  return {name,
          std::to_string(row.jobs),
          std::to_string(row.runs),
          std::to_string(row.finished),
          std::to_string(row.failed + row.killed),
          FormatClock(row.run_mean),
          fmt::format("{:.2f}", row.gpu_hours),
          size(&api::PeakStats::median),
          size(&api::PeakStats::p95),
          size(&api::PeakStats::most),
          std::to_string(row.peak ? row.peak->runs : 0)};
}

std::string GibHoursText(const std::optional<double>& bytes) {
  return bytes ? fmt::format("{:.2f}", *bytes / static_cast<double>(std::uint64_t{1} << 30)) : "n/a";
}

std::string EnergyText(const api::StatsRow& row) {
  constexpr double kJoulesOfKwh = 3.6e6;
  return row.energy ? fmt::format("{:.2f}kWh", *row.energy / kJoulesOfKwh) : "n/a";
}

Table StatsTable(const api::StatsView& stats) {
  std::vector<Column> columns{{base::UpperCase(stats.by), Align::kLeft, 8},
                              {"JOBS", Align::kRight},
                              {"RUNS", Align::kRight},
                              {"FINISHED", Align::kRight},
                              {"FAILED", Align::kRight},
                              {"CANCELLED", Align::kRight},
                              {"TIMEOUT", Align::kRight},
                              {"RUNNING", Align::kRight},
                              {"QUEUED", Align::kRight},
                              {"WAIT", Align::kRight},
                              {"RUN", Align::kRight},
                              {"GPU-HOURS", Align::kRight},
                              {"GIB-HOURS", Align::kRight},
                              {"SUCCESS", Align::kRight},
                              {"ENERGY", Align::kRight},
                              {"SHARE", Align::kRight},
                              {"USED", Align::kRight},
                              {"FAIR", Align::kRight}};
  if (stats.currency) columns.push_back({"COST " + Printable(*stats.currency), Align::kRight});
  return Table(std::move(columns));
}

std::vector<Cell> StatsCells(const api::StatsRow& row, const std::string& name) {
  const auto number = [](std::int64_t value) { return Cell(std::to_string(value)); };
  const auto part = [](double value) { return fmt::format("{:.0f}%", value * 100); };
  std::string entitled = "-", used = "-", fair = "-";
  if (const auto& share = row.fair_share) {
    entitled = part(share->entitled);
    used = part(share->used);
    if (share->factor) fair = fmt::format("{:.2f}", *share->factor);
  }
  return {name,
          number(row.jobs),
          number(row.runs),
          number(row.finished),
          number(row.failed + row.killed),
          number(row.cancelled),
          number(row.timeout),
          number(row.running),
          number(row.queued),
          FormatClock(row.wait_mean),
          FormatClock(row.run_mean),
          fmt::format("{:.2f}", row.gpu_hours),
          GibHoursText(row.gpu_byte_hours),
          row.success ? fmt::format("{:.0f}%", *row.success * 100) : "n/a",
          EnergyText(row),
          entitled,
          used,
          fair};
}

std::string AdvantageText(const api::Advantage& advantage) {
  std::string text;
  const auto add = [&](double seconds, std::string_view what) {
    const base::Millis minutes{static_cast<std::int64_t>(std::abs(seconds)) / 60 * 60'000};
    if (minutes.count() == 0) return;
    text += fmt::format("{}{} {} for {}", text.empty() ? "as if it had waited " : ", ",
                        base::FormatDuration(minutes), seconds > 0 ? "longer" : "less", what);
  };
  add(advantage.fair_share, "its fair share");
  add(advantage.short_job, "being short");
  add(advantage.priority, "its priority");
  return text;
}

}  // namespace

std::string IndicesOf(const std::vector<std::string>& uuids, const std::vector<api::QueueGpu>& gpus) {
  std::string text;
  for (const auto& uuid : uuids) {
    const auto it = std::find_if(gpus.begin(), gpus.end(), [&](const auto& gpu) { return gpu.uuid == uuid; });
    text += text.empty() ? "" : ",";
    text += it != gpus.end() ? IndexOf(*it) : uuid.substr(0, 12);
  }
  return text;
}

namespace {

std::string NotificationText(const api::PendingNotificationView& message) {
  std::string text = fmt::format("'{}' to {}", message.event, message.to);
  if (message.attempts > 0)
    text += fmt::format(", {} {}", message.attempts, message.attempts == 1 ? "attempt" : "attempts");
  if (message.problem) text += ": " + *message.problem;
  if (message.next_attempt) text += fmt::format("; next at {}", FormatLocal(*message.next_attempt));
  return message.state == "failed" ? text + "; given up" : text;
}

}  // namespace

namespace {

// Options that RenderJob itself shows, on other lines or in other words.
constexpr std::array<std::string_view, 6> kSaidElsewhere{"memory", "memory_auto", "priority",
                                                         "share",  "hold",        "retries"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kOwnLabels{{
    {"cpus", "CPUs"},
    {"conda_env", "Conda"},
    {"stdin", "Input"},
    {"stdout", "Output"},
    {"stderr", "Errors"},
    {"mps", "MPS"},
    {"mps_threads", "MPS threads (%)"},
    {"max_concurrent", "At once"},
    {"trace_allocations", "Traced"},
}};

// "time_limit_s" -> "Time limit"
std::string LabelOf(std::string_view name) {
  for (const auto& [option, label] : kOwnLabels)
    if (option == name) return std::string(label);
  if (name.ends_with("_s")) name.remove_suffix(2);
  std::string label(name);
  std::replace(label.begin(), label.end(), '_', ' ');
  label.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(label.front())));
  return label;
}

// Reads a job's list of options (base/json.h), and makes a text of each option that the job was given.
class OptionTexts {
 public:
  template <typename T>
  void Option(std::string_view name, const std::optional<T>& value) {
    if (value) Add(name, TextOf(*value));
  }
  template <typename T>
  void Changed(std::string_view name, const T& value, const std::type_identity_t<T>& usual = {}) {
    if (!(value == usual)) Add(name, TextOf(value));
  }
  template <typename T>
  void Part(std::string_view name, const T& value) {
    Changed(name, value);
  }
  static bool in_seconds() { return true; }
  std::vector<std::pair<std::string, std::string>> Take() && { return std::move(texts_); }

 private:
  static std::string TextOf(bool value) { return value ? "yes" : "no"; }
  static std::string TextOf(int value) { return std::to_string(value); }
  static std::string TextOf(double value) { return fmt::format("{}", value); }
  static std::string TextOf(const std::string& value) { return value; }
  static std::string TextOf(base::Bytes value) { return base::FormatBytes(value); }
  static std::string TextOf(const base::SizeSpec& value) {
    return value.IsRelative() ? fmt::format("{}%", value.percent) : base::FormatBytes(value.bytes);
  }
  static std::string TextOf(const spec::ComputeShare& value) { return spec::ToString(value); }
  static std::string TextOf(base::Millis value) { return base::FormatDuration(value); }
  static std::string TextOf(base::WallTime value) { return FormatLocal(value); }
  static std::string TextOf(const spec::Retries& value) { return std::to_string(value.count); }
  static std::string TextOf(spec::Signal value) { return spec::NameOf(value); }
  static std::string TextOf(const spec::NotificationOptions& value) {
    auto receivers = value.mails;
    receivers.insert(receivers.end(), value.webhooks.begin(), value.webhooks.end());
    std::vector<std::string_view> words;
    for (const auto event : value.on) words.push_back(spec::ToString(event));
    return fmt::format("{} of {}", fmt::join(receivers, ", "),
                       words.empty() ? "each end" : fmt::format("{}", fmt::join(words, ", ")));
  }

  void Add(std::string_view name, std::string text) {
    if (std::find(kSaidElsewhere.begin(), kSaidElsewhere.end(), name) == kSaidElsewhere.end())
      texts_.emplace_back(LabelOf(name), std::move(text));
  }

  std::vector<std::pair<std::string, std::string>> texts_;
};

// The limit, and where it comes from; empty: there is none.
std::string MemoryText(const api::JobView& job) {
  const bool chosen = job.queue && job.queue->asked.memory_auto;
  if (!job.memory.limit) return chosen ? "all of it (--memory auto knows no past run)" : "";
  return fmt::format("at most {} on each{}", base::FormatBytes(*job.memory.limit),
                     chosen ? " (chosen by --memory auto)" : "");
}

std::vector<std::pair<std::string, std::string>> OptionTextsOf(const spec::JobOptions& options) {
  OptionTexts texts;
  spec::OptionFields(texts, options);
  return std::move(texts).Take();
}

}  // namespace

std::string RenderJob(const api::JobView& job, const std::vector<api::GpuView>& gpus,
                      const TerminalStyle& style, base::WallTime now) {
  const api::QueueRow row = RowOf(job, gpus);
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty())
      text +=
          fmt::format("{}{}\n", Paint(style, Color::kBold, fmt::format("{:<16}", name)), Printable(value));
  };
  const auto when = [&](std::string_view name, const std::optional<base::WallTime>& time) {
    if (time) line(name, FormatLocal(*time));
  };
  line("Job", IdOf(row) == std::to_string(job.id) ? IdOf(row) : fmt::format("{} ({})", IdOf(row), job.id));
  line("Name", job.tag);
  line("User", job.user);
  if (const auto& place = job.kubernetes)
    line("Container", fmt::format("{} of pod {} in {}", place->container, place->pod, place->name_space));
  line("State", StateText(job));
  line("Reason", WithLocalTimes(job.reason_detail.value_or(job.reason.value_or(""))));
  line("Command", CommandText(job.command));
  line("Directory", job.directory);
  line("Priority", std::to_string(job.options.priority));
  line("GPUs", row.gpus.empty() ? "" : row.gpus);
  line("GPU memory", MemoryText(job));
  // Options that a job of the queue asked for come below.
  const auto idle = job.options.idle_suspend;
  const bool asked = job.queue && job.queue->asked.idle_suspend == idle;
  if (idle && !asked)
    line("Idle", fmt::format("leaves its GPU after {} without a call", base::FormatDuration(*idle)));
  if (job.memory.peak)
    line("GPU peak",
         base::FormatBytes(*job.memory.peak) +
             (job.memory.peak_parts ? fmt::format(" ({})", base::FormatParts(*job.memory.peak_parts)) : ""));
  if (job.queue) {
    const auto& queue = *job.queue;
    line("GPUs asked", GpuRequestText(queue.gpus) + (job.options.share ? ", shared" : ""));
    for (const auto& [name, value] : OptionTextsOf(queue.asked)) line(name, value);
    line("After", DependencyText(queue.asked.depends));
    const int runs = queue.asked.retries.count + 1;
    if (runs > 1 || queue.attempts > 1) line("Runs", fmt::format("{} of {}", queue.attempts, runs));
    if (queue.position) line("Position", std::to_string(*queue.position));
    if (queue.advantage) line("In front", AdvantageText(*queue.advantage));
    if (queue.estimated_start && queue.estimate_presumed)
      line("Expected start", FormatAbout(*queue.estimated_start, now) +
                                 " (a guess: jobs in front have no time limit; give them --time)");
    else
      when("Expected start", queue.estimated_start);
    if (queue.redo_of) line("Does again", fmt::format("job {}", *queue.redo_of));
    for (const auto& message : queue.notifications) line("Not delivered", NotificationText(message));
  }
  // The reason of a failed job already contains its refusal.
  if (job.refusal && job.state != spec::JobState::kFailed) line("Refused", job.refusal->message);
  for (const auto& note : job.notes) line("Note", note);
  when("Submitted", job.submitted_at);
  when("Started", job.started_at);
  when("Ended", job.ended_at);
  if (const auto time = RunTime(row, now)) line("Run time", FormatClock(*time));
  if (job.exit_code) line("Exit code", std::to_string(*job.exit_code));
  if (job.signal) line("Signal", std::to_string(*job.signal));
  line("Log", job.log_path);
  line("Traces", job.trace_path.value_or(""));
  return text;
}

std::string RenderInfo(const api::QueueInfo& info, const std::vector<api::Reservation>& reservations,
                       const TerminalStyle& style, base::WallTime now) {
  Table table({{"GPU"},
               {"MODEL", Align::kLeft, 10},
               {"MEMORY FREE", Align::kRight},
               {"STATE"},
               {"JOBS", Align::kLeft, 8}});
  std::string notes, hoarders, left;
  for (const auto& gpu : info.gpus) {
    const auto free = gpu.memory ? std::optional(gpu.memory->free) : std::nullopt;
    table.Add(
        {IndexOf(gpu), gpu.model, SizeText(free), Cell(StateOf(gpu), StateColor(gpu.state)), JobsOn(gpu)});
    for (const auto& each : gpu.left)
      left += fmt::format("GPU {}: {} of job {} ({})\n", IndexOf(gpu), base::FormatBytes(each.bytes),
                          each.job, Printable(each.tag));
    for (const auto& process : gpu.processes) {
      if (process.gpuman) continue;
      const auto line = fmt::format("GPU {}: {}\n", IndexOf(gpu), Printable(ProcessText(process)));
      notes += line;
      if (process.hoarding) hoarders += line;
    }
  }
  std::string text = info.gpus.empty() ? "No GPUs.\n" : table.Render(style);
  if (!left.empty()) text += "\nStays of suspended jobs:\n" + left;
  if (!notes.empty()) text += "\nNot managed by gpuman:\n" + notes;
  if (!hoarders.empty()) text += "\nProbably holding a GPU without using it:\n" + hoarders;
  std::string kept;
  for (const auto& r : reservations)
    if (r.state == "active")
      kept += fmt::format("GPU {} for {} until {}\n", IndicesOf(r.devices, info.gpus), Printable(r.user),
                          FormatWhen(r.end, now));
  if (!kept.empty()) text += "\nReserved:\n" + kept;
  const auto& settings = info.settings;
  if (settings.paused) text += "\nThe queue is paused: no new job is started.\n";
  if (settings.allowed && settings.allowed->empty())
    text += "\nThe queue uses no GPU: all are restricted (gpuman gpu allow all undoes that).\n";
  else if (settings.allowed)
    text += fmt::format("\nThe queue uses only GPU {}.\n", IndicesOf(*settings.allowed, info.gpus));
  if (settings.choice != "sequential")
    text += fmt::format("\nOf several free GPUs it takes: {}.\n", settings.choice);
  return text;
}

std::string RenderTopology(const api::QueueInfo& info, const TerminalStyle& style) {
  if (info.gpus.empty()) return "No GPUs.\n";
  std::vector<Column> columns{{"GPU"}};
  for (const auto& gpu : info.gpus) columns.push_back({IndexOf(gpu)});
  Table table(std::move(columns));
  for (const auto& gpu : info.gpus) {
    std::vector<Cell> cells{IndexOf(gpu)};
    for (const auto& link : gpu.links)
      cells.emplace_back(link == "self" ? "-" : link, link == "nvlink" ? Color::kGreen : Color::kNone);
    cells.resize(info.gpus.size() + 1, "");  // an older daemon does not send the topology
    table.Add(std::move(cells));
  }
  return table.Render(style);
}

std::string RenderReservations(const std::vector<api::Reservation>& list,
                               const std::vector<api::QueueGpu>& gpus, const TerminalStyle& style,
                               base::WallTime now) {
  if (list.empty()) return "No reservations.\n";
  Table table({{"ID"}, {"USER"}, {"GPUS"}, {"FROM"}, {"TO"}, {"STATE"}, {"BY"}});
  for (const auto& r : list)
    table.Add({std::to_string(r.id), r.user,
               r.devices.empty() ? std::to_string(r.count)
                                 : fmt::format("{} (GPU {})", r.devices.size(), IndicesOf(r.devices, gpus)),
               FormatWhen(r.start, now), FormatWhen(r.end, now),
               Cell(r.state, r.state == "active" ? Color::kGreen : Color::kNone),
               r.created_by.value_or("-")});
  return table.Render(style);
}

std::string RenderQuotas(const std::vector<api::Quota>& quotas, const TerminalStyle& style) {
  if (quotas.empty()) return "No quotas.\n";
  Table table({{"WHO"},
               {"NAME", Align::kLeft, 8},
               {"RUNNING", Align::kRight},
               {"GPUS", Align::kRight},
               {"QUEUED", Align::kRight},
               {"GPU-HOURS", Align::kRight},
               {"SHARES", Align::kRight}});
  for (const auto& [subject, name, limits, used] : quotas)
    table.Add({subject, name == "*" ? "(each other)" : name, Of(used.running_jobs, limits.running_jobs),
               Of(used.gpus, limits.gpus), Of(used.queued_jobs, limits.queued_jobs),
               HoursOf(used.gpu_hours, limits.gpu_hours),
               limits.shares ? fmt::format("{:g}", *limits.shares) : "-"});
  return table.Render(style);
}

void KeepUser(api::StatsView& stats, const std::string& user) {
  std::erase_if(stats.rows, [&](const auto& row) { return row.name != user; });
  stats.total = stats.rows.empty() ? api::StatsRow{} : stats.rows.front();
  stats.total.name = user;
}

std::string RenderStats(const api::StatsView& stats, const TerminalStyle& style) {
  const bool by_name = stats.by == "name";
  Table table = by_name ? StatsByNameTable() : StatsTable(stats);
  Table runs = RunsByNameTable();
  const auto add = [&](const api::StatsRow& row, const std::string& name) {
    runs.Add(RunsByNameCells(row, name));
    auto cells = by_name ? StatsByNameCells(row, name) : StatsCells(row, name);
    if (!by_name && stats.currency) cells.emplace_back(row.cost ? fmt::format("{:.2f}", *row.cost) : "n/a");
    table.Add(std::move(cells));
  };
  for (const auto& row : stats.rows) add(row, row.name.empty() ? "-" : row.name);
  if (stats.rows.size() != 1) add(stats.total, "all");
  return by_name ? fmt::format("{}\n{}", table.Render(style), runs.Render(style)) : table.Render(style);
}

std::string RenderWaste(const api::StatsView& stats, const TerminalStyle& style) {
  std::vector<api::StatsRow> rows = stats.rows;
  const auto unused = [](const api::StatsRow& row) { return row.gpu_byte_hours_unused.value_or(-1); };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return unused(a) > unused(b); });
  Table table({{base::UpperCase(stats.by), Align::kLeft, 8},
               {"RUNS", Align::kRight},
               {"GIB-HOURS", Align::kRight},
               {"KNOWN", Align::kRight},
               {"UNUSED", Align::kRight},
               {"PART", Align::kRight}});
  const auto add = [&](const api::StatsRow& row, const std::string& name) {
    const auto hours = [](const std::optional<double>& bytes) { return Cell(GibHoursText(bytes)); };
    const double known = row.gpu_byte_hours_known.value_or(0);
    table.Add({name, std::to_string(row.runs), hours(row.gpu_byte_hours), hours(row.gpu_byte_hours_known),
               hours(row.gpu_byte_hours_unused),
               known > 0 ? fmt::format("{:.0f}%", *row.gpu_byte_hours_unused / known * 100) : "n/a"});
  };
  for (const auto& row : rows) add(row, row.name.empty() ? "-" : row.name);
  if (rows.size() != 1) add(stats.total, "all");
  return table.Render(style);
}

std::string RenderStatsCsv(const api::StatsView& stats) {
  std::string text =
      stats.by +
      ",jobs,finished,failed,cancelled,timeout,killed,running,queued,wait_mean_s,run_mean_s,gpu_hours,"
      "gpu_byte_hours,success,energy_j,fair_share_entitled,fair_share_used,fair_share_factor,runs,"
      "peak_runs,peak_median,peak_p95,peak_most,gpu_byte_hours_known,gpu_byte_hours_unused,cost,currency,"
      "run_median_s,run_p95_s,run_most_s,utilization_runs,utilization_median,utilization_p95,"
      "utilization_most\n";
  const auto seconds = [](base::Millis value) { return static_cast<double>(value.count()) / 1000; };
  const auto maybe = [](const std::optional<double>& value) {
    return value ? fmt::to_string(*value) : std::string();
  };
  for (const auto& row : stats.rows)
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", row.name, row.jobs,
        row.finished, row.failed, row.cancelled, row.timeout, row.killed, row.running, row.queued,
        seconds(row.wait_mean), seconds(row.run_mean), row.gpu_hours, row.gpu_byte_hours, maybe(row.success),
        maybe(row.energy), maybe(row.fair_share ? std::optional(row.fair_share->entitled) : std::nullopt),
        maybe(row.fair_share ? std::optional(row.fair_share->used) : std::nullopt),
        maybe(row.fair_share ? row.fair_share->factor : std::nullopt), row.runs,
        row.peak ? fmt::format("{},{},{},{}", row.peak->runs, row.peak->median.count, row.peak->p95.count,
                               row.peak->most.count)
                 : "0,,,",
        maybe(row.gpu_byte_hours_known), maybe(row.gpu_byte_hours_unused), maybe(row.cost),
        stats.currency.value_or(""),
        row.run_time ? fmt::format("{},{},{}", seconds(row.run_time->median), seconds(row.run_time->p95),
                                   seconds(row.run_time->most))
                     : ",,",
        row.utilization ? fmt::format("{},{},{},{}", row.utilization->runs, row.utilization->median,
                                      row.utilization->p95, row.utilization->most)
                        : "0,,,");
  return text;
}

std::string RenderIgnored(const std::vector<api::IgnoreRuleView>& rules,
                          const std::vector<api::QueueGpu>& gpus, const TerminalStyle& style) {
  if (rules.empty()) return "No process is ignored.\n";
  Table table({{"ID"}, {"PID"}, {"USER"}, {"NAME"}, {"GPU"}});
  for (const auto& rule : rules)
    table.Add({std::to_string(rule.id), rule.pid ? std::to_string(*rule.pid) : "any",
               rule.user.value_or("any"), rule.name.value_or("any"),
               rule.gpu ? IndicesOf({*rule.gpu}, gpus) : "any"});
  return table.Render(style);
}

}  // namespace gpuman::cli::queue
