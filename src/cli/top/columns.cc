#include "cli/top/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "cli/queue/listing.h"
#include "cli/queue/when.h"
#include "cli/text.h"
#include "cli/top/bars.h"
#include "cli/views.h"

namespace gpuman::cli::top {
namespace {

constexpr std::size_t kMark = 2;  // "> " before the chosen row
constexpr bool kRight = true;

std::vector<Column> JobColumns() {
  return {{ColumnKind::kId, "ID", 6, kRight, 0, false, TopOrder::kJob},
          {ColumnKind::kName, "NAME", 14, false, 0, true},
          {ColumnKind::kUser, "USER", 8, false, 3, false, TopOrder::kUser},
          {ColumnKind::kState, "STATE", 9, false, 1},
          {ColumnKind::kGpu, "GPU", 4, false, 2},
          {ColumnKind::kUtilization, "GPU%", 4, kRight, 5, false, TopOrder::kUtilization},
          {ColumnKind::kMemory, "MEMORY", 9, kRight, 0, false, TopOrder::kMemory},
          {ColumnKind::kLimit, "LIMIT", 8, kRight, 4},
          {ColumnKind::kPeak, "PEAK", 8, kRight, 8},
          {ColumnKind::kCpu, "CPU", 6, kRight, 9, false, TopOrder::kCpu},
          {ColumnKind::kHostMemory, "HOST", 8, kRight, 9, false, TopOrder::kHostMemory},
          {ColumnKind::kTime, "TIME", 6, kRight, 6, false, TopOrder::kAge},
          {ColumnKind::kCommand, "COMMAND", 16, false, 7, true}};
}

std::vector<Column> QueueColumns() {
  return {{ColumnKind::kPosition, "POS", 5, kRight, 2},       {ColumnKind::kId, "ID", 6, kRight},
          {ColumnKind::kName, "NAME", 12, false, 0, true},    {ColumnKind::kUser, "USER", 8, false, 3},
          {ColumnKind::kPriority, "PRIO", 4, kRight, 7},      {ColumnKind::kGpusAsked, "GPUS", 4, kRight, 4},
          {ColumnKind::kMemory, "MEMORY", 8, kRight, 6},      {ColumnKind::kTimeLimit, "LIMIT", 7, kRight, 8},
          {ColumnKind::kWaited, "WAITS", 7, kRight, 5},       {ColumnKind::kStart, "START", 14, false, 1},
          {ColumnKind::kReason, "REASON", 14, false, 0, true}};
}

std::vector<Column> SharingColumns() {
  return {{ColumnKind::kId, "ID", 6, kRight},
          {ColumnKind::kName, "NAME", 12},
          {ColumnKind::kState, "STATE", 19},
          {ColumnKind::kMemory, "ON GPU", 8, kRight, 3},
          {ColumnKind::kAway, "AWAY", 8, kRight, 4},
          {ColumnKind::kWanted, "WANTS", 8, kRight, 5},
          {ColumnKind::kWeight, "WEIGHT", 6, kRight, 6},
          {ColumnKind::kTurns, "TURNS", 7, kRight, 2},
          {ColumnKind::kStrip, "OVER TIME", 16, false, 0, true}};
}

std::vector<Column> ProcessColumns() {
  return {{ColumnKind::kPid, "PID", 8, kRight, 0, false, TopOrder::kPid},
          {ColumnKind::kUser, "USER", 8, false, 3, false, TopOrder::kUser},
          {ColumnKind::kGpu, "GPU", 4, false, 1},
          {ColumnKind::kUtilization, "GPU%", 4, kRight, 5, false, TopOrder::kUtilization},
          {ColumnKind::kMemory, "MEMORY", 9, kRight, 0, false, TopOrder::kMemory},
          {ColumnKind::kCpu, "CPU", 6, kRight, 4, false, TopOrder::kCpu},
          {ColumnKind::kHostMemory, "HOST", 9, kRight, 6, false, TopOrder::kHostMemory},
          {ColumnKind::kTime, "TIME", 7, kRight, 5, false, TopOrder::kAge},
          {ColumnKind::kId, "JOB", 6, kRight, 2, false, TopOrder::kJob},
          {ColumnKind::kName, "NAME", 12, false, 7},
          {ColumnKind::kCommand, "COMMAND", 12, false, 0, true}};
}

std::vector<Column> AllColumns(Page page) {
  switch (page) {
    case Page::kJobs:
      return JobColumns();
    case Page::kQueue:
      return QueueColumns();
    case Page::kSharing:
      return SharingColumns();
    case Page::kProcesses:
      return ProcessColumns();
  }
  return {};
}

std::size_t WidthOf(const std::vector<Column>& columns) {
  std::size_t width = kMark;
  for (const auto& column : columns) width += column.width + 1;
  return width - (columns.empty() ? 0 : 1);
}

std::string GpusOf(const State& state, const api::JobView& job) {
  // The daemon lists all GPUs for a job that may use all, also before it has started.
  if (spec::IsWaiting(job.state)) return "-";
  if (job.gpus.empty()) return "none";
  return api::NumbersOf(job.gpus, state.status.gpus, 8);
}

std::string StartText(const State& state, const api::QueueRow& job) {
  if (!job.estimated_start) return std::string(kUnknown);
  return job.estimate_presumed != 0 ? queue::FormatAbout(*job.estimated_start, state.now)
                                    : queue::FormatWhen(*job.estimated_start, state.now);
}

Span QueueCell(const State& state, ColumnKind field, const api::QueueRow& job) {
  const bool held = job.state == spec::JobState::kHeld;
  switch (field) {
    case ColumnKind::kId:
      return {queue::IdOf(job)};
    case ColumnKind::kName:
      return {job.tag};
    case ColumnKind::kUser:
      return {job.user};
    case ColumnKind::kPosition:
      return {job.position ? std::to_string(*job.position) : std::string("-")};
    case ColumnKind::kPriority:
      return {std::to_string(job.priority)};
    case ColumnKind::kGpusAsked:
      return {std::to_string(job.gpus_asked)};
    case ColumnKind::kMemory:
      return {job.memory ? base::FormatBytes(*job.memory) : std::string("none")};
    case ColumnKind::kTimeLimit:
      return {job.time_limit ? base::FormatDuration(*job.time_limit) : std::string("none")};
    case ColumnKind::kWaited:
      return {AgeText(state.now - job.submitted_at)};
    case ColumnKind::kStart:
      return {StartText(state, job)};
    case ColumnKind::kReason:
      return {!job.reason.empty() ? job.reason : held ? "held" : "-", held ? Ink::kWarning : Ink::kPlain};
    default:
      return {};
  }
}

std::string DoesText(const api::ShareJob& job) {
  if (job.resting && job.resting->units > 1)
    return fmt::format("closing {} of {}", job.resting->at_rest, job.resting->units);
  if (job.suspended) return "suspended";
  if (job.waits_for) return fmt::format("waits for {}", *job.waits_for);
  return job.gate == "open" ? (job.activity == "idle" ? "idle" : "runs") : job.gate;
}

std::string CpuText(const ProcessFacts* facts) {
  return facts && facts->cpu ? fmt::format("{:.0f}%", *facts->cpu * 100) : std::string(kUnknown);
}

const ProcessFacts* FactsOf(const State& state, int pid) {
  const auto it = state.facts.find(pid);
  return it == state.facts.end() ? nullptr : &it->second;
}

Span ProcessCell(const State& state, ColumnKind field, const Row& row) {
  const auto& process = *row.process;
  const auto* const facts = FactsOf(state, process.pid);
  const bool outside = !process.job;
  switch (field) {
    case ColumnKind::kPid:
      return {std::to_string(process.pid)};
    case ColumnKind::kId:
      if (row.below) return {};
      return {process.job ? std::to_string(*process.job) : std::string("-"),
              outside ? Ink::kDim : Ink::kPlain};
    case ColumnKind::kName:
      if (row.below)
        return {fmt::format("{} {}", state.unicode ? (row.last ? "└─" : "├─") : "|-", process.pid),
                Ink::kDim};
      if (state.page == Page::kJobs) return {fmt::format("pid {}", process.pid)};
      return {process.gpuman ? "(gpuman)" : process.tag.value_or("-")};
    case ColumnKind::kUser:
      return {process.user.value_or(std::string(kUnknown)), row.below ? Ink::kDim : Ink::kPlain};
    case ColumnKind::kState:
      return row.below ? Span{} : Span{process.gpuman ? "gpuman" : "no job", Ink::kDim};
    case ColumnKind::kGpu:
      return {api::NumberOf(*row.gpu), row.below ? Ink::kDim : Ink::kPlain};
    case ColumnKind::kUtilization:
      return {NumberText(process.gpu_percent, "%"), row.below ? Ink::kDim : Ink::kPlain};
    case ColumnKind::kMemory:
      return {SizeText(process.memory), row.below ? Ink::kDim : Ink::kPlain};
    case ColumnKind::kCpu:
      return {CpuText(facts)};
    case ColumnKind::kHostMemory:
      return {facts ? base::FormatBytes(facts->resident) : std::string(kUnknown)};
    case ColumnKind::kTime:
      return row.below ? Span{} : Span{AgeText(facts ? std::optional(facts->age) : std::nullopt)};
    case ColumnKind::kCommand:
      return {ProcessCommand(process), row.below ? Ink::kDim : Ink::kPlain};
    default:
      return {};
  }
}

std::optional<base::Millis> RunTime(const State& state, const api::JobView& job) {
  if (!job.started_at) return std::nullopt;
  return job.ended_at.value_or(state.now) - *job.started_at;
}

Span MemoryCell(const api::JobView& job) {
  if (!job.memory.used || !job.memory.limit) return {SizeText(job.memory.used)};
  return {SizeText(job.memory.used),
          job.memory.used->count >= job.memory.limit->count / 20 * 19 ? Ink::kWarning : Ink::kPlain};
}

Span JobCell(const State& state, ColumnKind field, const Row& row) {
  const auto& job = *row.job;
  switch (field) {
    case ColumnKind::kId:
      return {std::to_string(job.id)};
    case ColumnKind::kName:
      return {job.tag};
    case ColumnKind::kUser:
      return {job.user};
    case ColumnKind::kState:
      return {std::string(spec::ToString(job.state)), InkOf(job.state)};
    case ColumnKind::kGpu:
      return {GpusOf(state, job)};
    case ColumnKind::kUtilization:
      return {NumberText(UtilizationOf(state, job), "%")};
    case ColumnKind::kMemory:
      return MemoryCell(job);
    case ColumnKind::kLimit:
      return {job.memory.limit ? base::FormatBytes(*job.memory.limit) : std::string("none")};
    case ColumnKind::kPeak:
      return {SizeText(job.memory.peak)};
    case ColumnKind::kCpu: {
      const auto use = HostUseOf(state, job);
      return {use.cpu ? fmt::format("{:.0f}%", *use.cpu * 100) : std::string(kUnknown)};
    }
    case ColumnKind::kHostMemory:
      return {SizeText(HostUseOf(state, job).memory)};
    case ColumnKind::kTime:
      return {AgeText(RunTime(state, job))};
    case ColumnKind::kCommand:
      return {CommandText(job.command)};
    default:
      return {};
  }
}

Span ShareCell(const State& state, const Column& column, const Row& row) {
  const auto& job = *row.share_job;
  switch (column.field) {
    case ColumnKind::kId:
      return {std::to_string(job.id)};
    case ColumnKind::kName:
      return {job.tag};
    case ColumnKind::kState:
      return {DoesText(job), job.in_run_set ? Ink::kGood : job.waits_for ? Ink::kWarning : Ink::kPlain};
    case ColumnKind::kMemory:
      return {base::FormatBytes(job.memory.resident + job.memory.pinned)};
    case ColumnKind::kAway:
      return {base::FormatBytes(job.memory.away)};
    case ColumnKind::kWanted:
      return {base::FormatBytes(job.memory.wanted)};
    case ColumnKind::kWeight:
      return {fmt::format("{}", job.weight)};
    case ColumnKind::kTurns:
      return {AgeText(job.had_turn)};
    case ColumnKind::kStrip: {
      const auto* const turns = state.samples.Turns(row.share_gpu->uuid, job.id);
      const auto place = static_cast<std::size_t>(&job - row.share_gpu->jobs.data());
      if (!turns) return {};
      return {Strip(turns->Last(column.width, state.samples.now()), state.unicode), InkOfJob(place)};
    }
    default:
      return {};
  }
}

Line HeadingLine(const Row& row) {
  const auto& gpu = *row.share_gpu;
  const std::string how = gpu.handing_over ? "being handed over"
                          : gpu.exclusive  ? "turns, also among jobs that fit together"
                          : gpu.contended  ? "turns"
                                           : "everybody runs";
  Line line;
  line.Add("  ").Add(fmt::format("GPU {}: {}", gpu.number.value_or(gpu.uuid), how), Ink::kTitle);
  line.Add(fmt::format("; {} wanted of {}", base::FormatBytes(gpu.demand),
                       gpu.capacity ? base::FormatBytes(*gpu.capacity) : std::string(kUnknown)));
  if (gpu.contended || gpu.hand_overs > 0) {
    line.Add(fmt::format("; quantum {}", base::FormatDuration(gpu.quantum)));
    if (gpu.quantum_left) line.Add(fmt::format(", {} left", base::FormatDuration(*gpu.quantum_left)));
    line.Add(
        fmt::format("; {} hand-overs, {:.1f}% of the time moving", gpu.hand_overs, gpu.moving_share * 100));
  }
  return line;
}

Span CellOf(const State& state, const Column& column, const Row& row) {
  if (row.share_job) return ShareCell(state, column, row);
  if (row.queued) return QueueCell(state, column.field, *row.queued);
  return row.process ? ProcessCell(state, column.field, row) : JobCell(state, column.field, row);
}

}  // namespace

std::string AgeText(std::optional<base::Millis> age) {
  if (!age) return std::string(kUnknown);
  // A clock that was set back must not show a negative time.
  const auto seconds = std::chrono::floor<std::chrono::seconds>(std::max(*age, base::Millis(0)));
  return seconds.count() == 0 ? "0s" : base::FormatDuration(seconds);
}

Ink InkOf(spec::JobState state) {
  switch (state) {
    case spec::JobState::kRunning:
      return Ink::kGood;
    case spec::JobState::kSuspended:
    case spec::JobState::kStopping:
    case spec::JobState::kHeld:
      return Ink::kWarning;
    case spec::JobState::kFailed:
    case spec::JobState::kKilled:
    case spec::JobState::kTimeout:
      return Ink::kBad;
    default:
      return Ink::kPlain;
  }
}

std::vector<Column> ColumnsOf(Page page, std::size_t columns) {
  auto all = AllColumns(page);
  while (WidthOf(all) > columns) {
    const auto least = std::max_element(all.begin(), all.end(),
                                        [](const Column& a, const Column& b) { return a.rank < b.rank; });
    if (least == all.end() || least->rank == 0) break;
    all.erase(least);
  }
  // The last column that grows gets the most, since it is the longest text.
  std::size_t left = columns - std::min(columns, WidthOf(all));
  const auto growing = static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const Column& column) { return column.grows; }));
  std::size_t seen = 0;
  for (auto& column : all) {
    if (!column.grows) continue;
    constexpr std::size_t kMaxOfName = 16;
    const auto part = ++seen == growing ? left : std::min(left / 4, kMaxOfName);
    column.width += part;
    left -= part;
  }
  return all;
}

Line TitleLine(const State& state, const std::vector<Column>& columns) {
  Line line;
  line.Add("  ", Ink::kTitle);
  bool first = true;
  for (const auto& column : columns) {
    if (!std::exchange(first, false)) line.Add(" ", Ink::kTitle);
    std::string title(column.title);
    const bool sorted =
        column.order == state.order && (state.page == Page::kJobs || state.page == Page::kProcesses);
    if (sorted && title.size() < column.width) title += state.inverted ? "<" : ">";
    const auto text = Fit(title, column.width, column.right);
    if (column.order)
      line.Add(text, Ink::kTitle, {ClickTarget::Kind::kOrder, static_cast<std::size_t>(*column.order)});
    else
      line.Add(text, Ink::kTitle);
  }
  return line;
}

Line RowLine(const State& state, const std::vector<Column>& columns, const Row& row) {
  if (row.id.kind == RowId::Kind::kHeading) return HeadingLine(row);
  const bool chosen = row.id == state.choice().id;
  Line line;
  line.Add(chosen ? "> " : "  ");
  bool first = true;
  for (const auto& column : columns) {
    if (!std::exchange(first, false)) line.Add(" ");
    const auto cell = CellOf(state, column, row);
    line.Add(Fit(Printable(cell.text), column.width, column.right), cell.ink);
  }
  return line;
}

}  // namespace gpuman::cli::top
