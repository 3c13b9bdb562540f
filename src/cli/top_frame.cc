#include "cli/top_frame.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "cli/command_line.h"
#include "cli/queue/when.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/views.h"

namespace gpuman::cli {
namespace {

constexpr std::size_t kBarCells = 10;
constexpr std::array<std::pair<TopOrder, std::string_view>, 6> kOrders{
    {{TopOrder::kMemory, "memory"},
     {TopOrder::kUtilization, "utilization"},
     {TopOrder::kAge, "age"},
     {TopOrder::kUser, "user"},
     {TopOrder::kJob, "job"},
     {TopOrder::kPid, "pid"}}};

struct Process {
  const api::GpuView* gpu;
  const api::ProcessView* process;
  base::WallTime started;  // of its job; a process of no job, and a job that has not started, come last
};

// The bar is full when all is in use, and empty only when nothing is in use.
std::string Bar(double part) {
  const auto filled =
      static_cast<std::size_t>(std::ceil(std::clamp(part, 0.0, 1.0) * static_cast<double>(kBarCells)));
  return "[" + std::string(filled, '#') + std::string(kBarCells - filled, ' ') + "] ";
}

std::string Utilization(const api::GpuView& gpu, bool bar) {
  if (!gpu.utilization_gpu) return std::string(kUnknown);
  return fmt::format("{}{:>3}%", bar ? Bar(*gpu.utilization_gpu / 100.0) : "", *gpu.utilization_gpu);
}

std::string Memory(const api::GpuView& gpu, bool bar) {
  if (!gpu.memory || gpu.memory->total.count == 0) return std::string(kUnknown);
  const auto& memory = *gpu.memory;
  const double part = static_cast<double>(memory.used.count) / static_cast<double>(memory.total.count);
  return fmt::format("{}{} / {}", bar ? Bar(part) : "", base::FormatBytes(memory.used),
                     base::FormatBytes(memory.total));
}

// The lines of a table: its title, then one for each row.
std::vector<std::string> LinesOf(const Table& table, std::size_t columns) {
  std::istringstream text(table.Render({false, false, columns}));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(std::move(line));
  return lines;
}

// Which columns and bars the line of a GPU has.
struct GpuForm {
  bool utilization_bar = true, memory_bar = true;
  bool sensors = true;  // temperature and power
  bool utilization = true;
  bool memory = true;
};
// From the widest to the narrowest.
constexpr std::array<GpuForm, 6> kGpuForms{{{},
                                            {false, true},
                                            {false, false},
                                            {false, false, false},
                                            {false, false, false, false},
                                            {false, false, false, false, false}}};

std::vector<std::string> GpuTable(const std::vector<api::GpuView>& gpus, std::size_t columns,
                                  const GpuForm& form) {
  constexpr std::size_t kMinName = 6;
  std::vector<Column> titles{{"GPU"}, {"NAME", Align::kLeft, kMinName}};
  if (form.utilization) titles.push_back({"UTIL"});
  if (form.memory) titles.push_back({"MEMORY"});
  if (form.sensors) titles.insert(titles.end(), {{"TEMP", Align::kRight}, {"POWER", Align::kRight}});
  titles.push_back({"HEALTH"});
  Table table(std::move(titles));
  for (const auto& gpu : gpus) {
    std::vector<Cell> cells{api::NumberOf(gpu), gpu.name};
    if (form.utilization) cells.emplace_back(Utilization(gpu, form.utilization_bar));
    if (form.memory) cells.emplace_back(Memory(gpu, form.memory_bar));
    if (form.sensors)
      cells.insert(cells.end(), {Cell(Rounded(gpu.temperature_c, "C")), Cell(Rounded(gpu.power_w, "W"))});
    cells.emplace_back(gpu.health.state);
    table.Add(std::move(cells));
  }
  return LinesOf(table, columns);
}

// The table in the widest form that is not cut at the right, where the health is.
std::vector<std::string> GpuTable(const std::vector<api::GpuView>& gpus, std::size_t columns) {
  std::vector<std::string> lines;
  for (const auto& form : kGpuForms) {
    lines = GpuTable(gpus, columns, form);
    if (std::all_of(lines.begin(), lines.end(), [&](const auto& line) { return Width(line) <= columns; }))
      break;
  }
  return lines;
}

// Adds as many lines as the text needs, broken at blanks.
void AddWrapped(std::vector<TopLine>& lines, const std::string& text, Color color, std::size_t columns) {
  std::string line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && Width(line) + 1 + Width(word) > columns) {
      lines.push_back({line, color});
      line = "  ";
    }
    line += (line.empty() || line == "  " ? "" : " ") + word;
  }
  lines.push_back({line, color});
}

std::vector<TopLine> GpuLines(const api::StatusView& status, std::size_t columns) {
  std::vector<TopLine> lines;
  if (status.gpus.empty()) {
    AddWrapped(lines, status.driver_error ? "No GPUs: " + *status.driver_error : std::string("No GPUs."),
               Color::kYellow, columns);
    return lines;
  }
  const auto texts = GpuTable(status.gpus, columns);
  for (std::size_t i = 0; i < texts.size(); ++i)
    lines.push_back({texts[i], i == 0 ? Color::kBold : HealthColor(status.gpus[i - 1].health.state)});
  for (const auto& gpu : status.gpus)
    for (const auto& reason : gpu.health.reasons)
      AddWrapped(lines, fmt::format("GPU {}: {}", api::NumberOf(gpu), reason), HealthColor(gpu.health.state),
                 columns);
  return lines;
}

std::size_t CountOf(const api::StatusView& status, spec::JobState state) {
  return static_cast<std::size_t>(std::count_if(status.jobs.begin(), status.jobs.end(),
                                                [&](const api::JobView& job) { return job.state == state; }));
}

std::string JobsSummary(const api::StatusView& status) {
  std::map<std::string, std::size_t> reasons;
  for (const auto& job : status.jobs)
    if (job.state == spec::JobState::kQueued && job.reason) ++reasons[*job.reason];
  std::string text = "Jobs:";
  for (const auto state : {spec::JobState::kRunning, spec::JobState::kStarting, spec::JobState::kSuspended,
                           spec::JobState::kStopping, spec::JobState::kQueued, spec::JobState::kHeld}) {
    const auto count = CountOf(status, state);
    if (count == 0 && state != spec::JobState::kRunning && state != spec::JobState::kQueued) continue;
    text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",", count, ToString(state));
    if (state != spec::JobState::kQueued || reasons.empty()) continue;
    std::string why;
    for (const auto& [reason, jobs] : reasons)
      why += fmt::format("{}{} {}", why.empty() ? "" : ", ", jobs, reason);
    text += fmt::format(" ({})", why);
  }
  return text;
}

std::vector<Process> Sorted(const api::StatusView& status, TopOrder order) {
  std::map<std::int64_t, base::WallTime> started;
  for (const auto& job : status.jobs)
    if (job.started_at) started[job.id] = *job.started_at;
  std::vector<Process> all;
  for (const auto& gpu : status.gpus) {
    for (const auto& process : gpu.processes) {
      const auto job = started.find(process.job.value_or(0));
      all.push_back({&gpu, &process, job == started.end() ? base::WallTime::max() : job->second});
    }
  }
  std::stable_sort(all.begin(), all.end(), [order](const Process& a, const Process& b) {
    const auto& x = *a.process;
    const auto& y = *b.process;
    switch (order) {
      case TopOrder::kMemory:
      case TopOrder::kCpu:
      case TopOrder::kHostMemory:
        return x.memory > y.memory;
      case TopOrder::kUtilization:
        return a.gpu->utilization_gpu > b.gpu->utilization_gpu;
      case TopOrder::kAge:
        return a.started < b.started;
      case TopOrder::kUser:
        return x.user < y.user;
      case TopOrder::kJob:
        return x.job.value_or(INT64_MAX) < y.job.value_or(INT64_MAX);
      case TopOrder::kPid:
        return x.pid < y.pid;
    }
    return false;
  });
  return all;
}

std::vector<TopLine> ProcessLines(const std::vector<Process>& processes, std::size_t columns) {
  Table table({{"GPU"},
               {"PID", Align::kRight},
               {"USER", Align::kLeft, 5},
               {"JOB", Align::kRight},
               {"TAG", Align::kLeft, 6},
               {"MEMORY", Align::kRight},
               {"COMMAND", Align::kLeft, 10}});
  for (const auto& [gpu, process, started] : processes)
    table.Add({api::NumberOf(*gpu), std::to_string(process->pid),
               process->user.value_or(std::string(kUnknown)),
               process->job ? std::to_string(*process->job) : std::string("-"),
               process->gpuman ? "(gpuman)" : process->tag.value_or("-"), SizeText(process->memory),
               ProcessCommand(*process)});
  std::vector<TopLine> lines;
  for (auto& text : LinesOf(table, columns))
    lines.push_back({std::move(text), lines.empty() ? Color::kBold : Color::kNone});
  return lines;
}

// All lines above the processes.
std::vector<TopLine> HeadLines(const TopView& view, std::size_t columns) {
  std::vector<TopLine> lines{
      {fmt::format("gpuman top  {}  processes by {}", queue::FormatTimeOfDay(view.now), ToString(view.order)),
       Color::kBold}};
  for (auto& line : GpuLines(view.status, columns)) lines.push_back(std::move(line));
  AddWrapped(lines, JobsSummary(view.status), Color::kNone, columns);
  return lines;
}

}  // namespace

std::string_view ToString(TopOrder order) {
  for (const auto& [known, word] : kOrders)
    if (known == order) return word;
  return "memory";
}

std::optional<TopOrder> TopOrderFromString(std::string_view word) {
  for (const auto& [order, known] : kOrders)
    if (known == word) return order;
  return std::nullopt;
}

std::vector<TopLine> TopLines(const TopView& view, std::size_t columns) {
  auto lines = HeadLines(view, columns);
  const auto processes = Sorted(view.status, view.order);
  if (!processes.empty())
    for (auto& line : ProcessLines(processes, columns)) lines.push_back(std::move(line));
  for (auto& line : lines) line.text = Cut(Printable(line.text), columns);
  return lines;
}

}  // namespace gpuman::cli
