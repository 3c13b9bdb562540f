#include "cli/top_frame.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "cli/command_line.h"
#include "cli/table.h"
#include "cli/views.h"

namespace gpuman::cli {
namespace {

constexpr std::string_view kUnknown = "n/a";
constexpr std::size_t kBarCells = 10;
constexpr std::array<std::pair<TopOrder, std::string_view>, 4> kOrders{{{TopOrder::kMemory, "memory"},
                                                                        {TopOrder::kUser, "user"},
                                                                        {TopOrder::kJob, "job"},
                                                                        {TopOrder::kPid, "pid"}}};

struct Process {
  const api::GpuView* gpu;
  const api::ProcessView* process;
};

// Full when all is in use, empty only when nothing is.
std::string Bar(double part) {
  const auto filled =
      static_cast<std::size_t>(std::ceil(std::clamp(part, 0.0, 1.0) * static_cast<double>(kBarCells)));
  return "[" + std::string(filled, '#') + std::string(kBarCells - filled, ' ') + "] ";
}

std::string Utilization(const api::GpuView& gpu) {
  if (!gpu.utilization_gpu) return std::string(kUnknown);
  return fmt::format("{}{:>3}%", Bar(*gpu.utilization_gpu / 100.0), *gpu.utilization_gpu);
}

std::string Memory(const api::GpuView& gpu) {
  if (!gpu.memory || gpu.memory->total.count == 0) return std::string(kUnknown);
  const auto& memory = *gpu.memory;
  return fmt::format("{}{} / {}",
                     Bar(static_cast<double>(memory.used.count) / static_cast<double>(memory.total.count)),
                     base::FormatBytes(memory.used), base::FormatBytes(memory.total));
}

template <typename T>
std::string With(const std::optional<T>& value, std::string_view unit) {
  return value ? fmt::format("{:.0f}{}", static_cast<double>(*value), unit) : std::string(kUnknown);
}

std::string Index(const api::GpuView& gpu) { return api::NumberOf(gpu); }

// The lines of a table: its title, then a row each.
std::vector<std::string> LinesOf(const Table& table, std::size_t columns) {
  std::istringstream text(table.Render({false, false, columns}));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(std::move(line));
  return lines;
}

std::vector<TopLine> GpuLines(const api::StatusView& status, std::size_t columns) {
  if (status.gpus.empty())
    return {
        {status.driver_error ? "No GPUs: " + *status.driver_error : std::string("No GPUs."), Color::kYellow}};
  Table table({{"GPU"},
               {"NAME", Align::kLeft, 6},
               {"UTIL"},
               {"MEMORY"},
               {"TEMP", Align::kRight},
               {"POWER", Align::kRight},
               {"HEALTH"}});
  for (const auto& gpu : status.gpus)
    table.Add({Index(gpu), gpu.name, Utilization(gpu), Memory(gpu), With(gpu.temperature_c, "C"),
               With(gpu.power_w, "W"), gpu.health.state});
  std::vector<TopLine> lines;
  const auto texts = LinesOf(table, columns);
  for (std::size_t i = 0; i < texts.size(); ++i)
    lines.push_back({texts[i], i == 0 ? Color::kBold : HealthColor(status.gpus[i - 1].health.state)});
  for (const auto& gpu : status.gpus)
    for (const auto& reason : gpu.health.reasons)
      lines.push_back({fmt::format("GPU {}: {}", Index(gpu), reason), HealthColor(gpu.health.state)});
  return lines;
}

std::size_t CountOf(const api::StatusView& status, api::JobState state) {
  return static_cast<std::size_t>(std::count_if(status.jobs.begin(), status.jobs.end(),
                                                [&](const api::JobView& job) { return job.state == state; }));
}

std::string JobsSummary(const api::StatusView& status) {
  std::map<std::string, std::size_t> reasons;
  for (const auto& job : status.jobs)
    if (job.state == api::JobState::kQueued) ++reasons[job.reason.value_or("starts")];
  std::string text = "Jobs:";
  for (const auto state : {api::JobState::kRunning, api::JobState::kStarting, api::JobState::kSuspended,
                           api::JobState::kStopping, api::JobState::kQueued, api::JobState::kHeld}) {
    const auto count = CountOf(status, state);
    if (count == 0 && state != api::JobState::kRunning && state != api::JobState::kQueued) continue;
    text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",", count, ToString(state));
    if (state != api::JobState::kQueued || reasons.empty()) continue;
    std::string why;
    for (const auto& [reason, jobs] : reasons)
      why += fmt::format("{}{} {}", why.empty() ? "" : ", ", jobs, reason);
    text += fmt::format(" ({})", why);
  }
  return text;
}

std::vector<Process> Sorted(const api::StatusView& status, TopOrder order) {
  std::vector<Process> all;
  for (const auto& gpu : status.gpus)
    for (const auto& process : gpu.processes) all.push_back({&gpu, &process});
  std::stable_sort(all.begin(), all.end(), [order](const Process& a, const Process& b) {
    const auto& x = *a.process;
    const auto& y = *b.process;
    switch (order) {
      case TopOrder::kMemory:
        return x.memory > y.memory;
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

std::string CommandOf(const api::ProcessView& process) {
  if (!process.command.empty()) return JoinCommand(process.command);
  return process.name.value_or(std::string(kUnknown));
}

std::vector<TopLine> ProcessLines(const std::vector<Process>& processes, std::size_t columns) {
  Table table({{"GPU"},
               {"PID", Align::kRight},
               {"USER", Align::kLeft, 5},
               {"JOB", Align::kRight},
               {"TAG", Align::kLeft, 6},
               {"MEMORY", Align::kRight},
               {"COMMAND", Align::kLeft, 10}});
  for (const auto& [gpu, process] : processes)
    table.Add({Index(*gpu), std::to_string(process->pid), process->user.value_or(std::string(kUnknown)),
               process->job ? std::to_string(*process->job) : std::string("-"),
               process->gpuman ? "(gpuman)" : process->tag.value_or("-"),
               SizeText(process->memory), CommandOf(*process)});
  std::vector<TopLine> lines;
  for (auto& text : LinesOf(table, columns))
    lines.push_back({std::move(text), lines.empty() ? Color::kBold : Color::kNone});
  return lines;
}

// Everything above the processes.
std::vector<TopLine> HeadLines(const TopView& view, std::size_t columns) {
  std::vector<TopLine> lines{
      {fmt::format("gpuman top  {:%H:%M:%S} UTC  processes by {}",
                   std::chrono::floor<std::chrono::seconds>(view.now), ToString(view.order)),
       Color::kBold}};
  if (!view.problem.empty()) lines.push_back({view.problem, Color::kRed});
  for (auto& line : GpuLines(view.status, columns)) lines.push_back(std::move(line));
  lines.push_back({JobsSummary(view.status), Color::kNone});
  return lines;
}

// For processes, below the head and their title.
std::size_t RoomFor(std::size_t head, const TopSize& size, std::size_t processes) {
  if (!size.rows) return processes;
  return *size.rows > head + 1 ? *size.rows - head - 1 : 0;
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

std::size_t LastPage(const TopView& view, const TopSize& size) {
  const auto processes = Sorted(view.status, view.order).size();
  return processes - std::min(processes, RoomFor(HeadLines(view, size.columns).size(), size, processes));
}

std::vector<TopLine> TopLines(const TopView& view, const TopSize& size) {
  auto lines = HeadLines(view, size.columns);
  auto processes = Sorted(view.status, view.order);
  const auto room = RoomFor(lines.size(), size, processes.size());
  const auto skip = static_cast<std::ptrdiff_t>(std::min(view.skip, LastPage(view, size)));
  processes.erase(processes.begin(), processes.begin() + skip);
  if (processes.size() > room) processes.resize(room);
  if (!processes.empty())
    for (auto& line : ProcessLines(processes, size.columns)) lines.push_back(std::move(line));

  if (size.rows && lines.size() > *size.rows) lines.resize(*size.rows);
  for (auto& line : lines) line.text = Cut(Printable(line.text), size.columns);
  return lines;
}

}  // namespace gpuman::cli
