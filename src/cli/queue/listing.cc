#include "cli/queue/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.h"
#include "cli/queue/when.h"
#include "cli/table.h"
#include "cli/values.h"
#include "cli/views.h"

namespace gpuman::cli::queue {
namespace {

using spec::JobState;

constexpr std::array<std::string_view, 16> kColumns{"JOBID",
                                                    "NAME",
                                                    "ST",
                                                    "STATE",
                                                    "TIME",
                                                    "TIMELIMIT",
                                                    "MEMORY",
                                                    "GPUMEM",
                                                    "NODES",
                                                    "GPUS",
                                                    "NODELIST(REASON)",
                                                    "USER",
                                                    "PROJECT",
                                                    "PRIORITY",
                                                    "START",
                                                    "SUBMIT"};

struct StateNames {
  JobState state;
  std::string_view letters;
  std::string_view word;
};
constexpr std::array<StateNames, 11> kStates{{{JobState::kQueued, "PD", "Queued"},
                                              {JobState::kHeld, "H", "Hold"},
                                              {JobState::kStarting, "R", "Running"},
                                              {JobState::kRunning, "R", "Running"},
                                              {JobState::kSuspended, "S", "Suspended"},
                                              {JobState::kStopping, "R", "Running"},
                                              {JobState::kFinished, "CD", "Finished"},
                                              {JobState::kFailed, "F", "Failed"},
                                              {JobState::kCancelled, "CA", "Cancelled"},
                                              {JobState::kTimeout, "TO", "Timeout"},
                                              {JobState::kKilled, "F", "Failed"}}};

const StateNames& NamesOf(JobState state) {
  return *std::find_if(kStates.begin(), kStates.end(),
                       [&](const auto& names) { return names.state == state; });
}

std::string Size(const std::optional<base::Bytes>& size) { return size ? base::FormatBytes(*size) : "-"; }

struct View {
  base::WallTime now;
  std::string (*place)(const api::QueueRow& row);
};

// Makes the cell of a column; looked up once for a table, since lists are long.
using CellMaker = Cell (*)(const api::QueueRow& row, const View& view);

Cell StateCell(const api::QueueRow& row, const View&) {
  return {std::string(spec::ToString(row.state)), StateColor(row.state)};
}
Cell LettersCell(const api::QueueRow& row, const View&) {
  return {std::string(ShortState(row.state)), StateColor(row.state)};
}
Cell TimeCell(const api::QueueRow& row, const View& view) {
  const auto time = RunTime(row, view.now);
  return time ? FormatClock(*time) : "-";
}
Cell GpusCell(const api::QueueRow& row, const View&) { return std::to_string(row.gpus_asked); }
Cell StartCell(const api::QueueRow& row, const View& view) {
  if (row.started_at) return FormatWhen(*row.started_at, view.now);
  if (!row.estimated_start) return "-";
  return row.estimate_presumed != 0 ? FormatAbout(*row.estimated_start, view.now)
                                    : FormatWhen(*row.estimated_start, view.now);
}

CellMaker MakerOf(std::string_view column) {
  using R = const api::QueueRow&;
  using V = const View&;
  if (column == "JOBID") return [](R row, V) -> Cell { return IdOf(row); };
  if (column == "NAME") return [](R row, V) -> Cell { return row.tag; };
  if (column == "ST") return LettersCell;
  if (column == "STATE") return StateCell;
  if (column == "TIME") return TimeCell;
  if (column == "TIMELIMIT")
    return [](R row, V) -> Cell { return row.time_limit ? FormatClock(*row.time_limit) : "UNLIMITED"; };
  if (column == "MEMORY") return [](R row, V) -> Cell { return Size(row.host_memory); };
  if (column == "GPUMEM") return [](R row, V) -> Cell { return Size(row.memory); };
  if (column == "NODES" || column == "GPUS") return GpusCell;
  if (column == "NODELIST(REASON)") return [](R row, V view) -> Cell { return view.place(row); };
  if (column == "USER") return [](R row, V) -> Cell { return row.user; };
  if (column == "PROJECT") return [](R row, V) -> Cell { return row.project.empty() ? "-" : row.project; };
  if (column == "PRIORITY") return [](R row, V) -> Cell { return std::to_string(row.priority); };
  if (column == "SUBMIT") return [](R row, V view) -> Cell { return FormatWhen(row.submitted_at, view.now); };
  return StartCell;
}

Column ColumnOf(const std::string& name) {
  const bool right = name == "NODES" || name == "GPUS" || name == "PRIORITY";
  const bool wide = name == "NAME" || name == "NODELIST(REASON)" || name == "PROJECT";
  return {name, right ? Align::kRight : Align::kLeft, wide ? std::size_t{8} : 0};
}

// The jobs below each job, in order; key 0 is the top.
std::map<std::int64_t, std::vector<const JobListEntry*>> Branches(const std::vector<JobListEntry>& jobs) {
  std::set<std::int64_t> known;
  for (const auto& job : jobs) known.insert(job.row.id);
  std::map<std::int64_t, std::vector<const JobListEntry*>> branches;
  for (const auto& job : jobs) {
    // A job appears in the tree once, below the last job that it waits for. Ids rise, so there is no cycle.
    std::int64_t above = 0;
    for (const auto id : job.after)
      if (known.contains(id) && id < job.row.id) above = std::max(above, id);
    branches[above].push_back(&job);
  }
  return branches;
}

using AddRow = std::function<void(const JobListEntry&, const std::string& prefix)>;

void Walk(const std::map<std::int64_t, std::vector<const JobListEntry*>>& branches, std::int64_t above,
          const std::string& indent, const AddRow& add) {
  const auto it = branches.find(above);
  if (it == branches.end()) return;
  for (std::size_t i = 0; i < it->second.size(); ++i) {
    const bool last = i + 1 == it->second.size();
    const JobListEntry& job = *it->second[i];
    add(job, above == 0 ? std::string() : indent + (last ? "└─" : "├─"));
    Walk(branches, job.row.id, above == 0 ? std::string() : indent + (last ? "  " : "│ "), add);
  }
}

}  // namespace

std::optional<SortBy> SortByFromString(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, SortBy>, 7> kWords{{{"queue", SortBy::kQueue},
                                                                       {"id", SortBy::kId},
                                                                       {"state", SortBy::kState},
                                                                       {"time", SortBy::kTime},
                                                                       {"name", SortBy::kName},
                                                                       {"gpus", SortBy::kGpus},
                                                                       {"priority", SortBy::kPriority}}};
  for (const auto& [name, by] : kWords)
    if (name == word) return by;
  return std::nullopt;
}

api::QueueRow RowOf(const api::JobView& job, const std::vector<api::GpuView>& gpus) {
  api::QueueRow row;
  row.id = job.id;
  row.tag = job.tag;
  row.user = job.user;
  row.state = job.state;
  row.reason = job.reason.value_or("");
  row.priority = job.options.priority;
  row.memory = job.memory.limit;
  row.submitted_at = job.submitted_at;
  row.started_at = job.started_at;
  row.ended_at = job.ended_at;
  const bool never_ran = spec::IsEnded(job.state) && !job.started_at;
  if (!never_ran) row.gpus = api::NumbersOf(job.gpus, gpus);
  row.gpus_asked = static_cast<int>(job.gpus.size());
  if (!job.queue) return row;
  const auto& queue = *job.queue;
  row.gpus_asked =
      queue.gpus.devices.empty() ? queue.gpus.count : static_cast<int>(queue.gpus.devices.size());
  row.array_id = queue.array_id;
  row.array_task = queue.array_task;
  row.project = queue.asked.project.value_or("");
  row.host_memory = queue.asked.host_memory;
  row.time_limit = queue.asked.time_limit;
  row.estimated_start = queue.estimated_start;
  row.position = queue.position;
  row.estimate_presumed = queue.estimate_presumed ? 1 : 0;
  return row;
}

JobListEntry ListedOf(const api::JobView& job, const std::vector<api::GpuView>& gpus) {
  JobListEntry listed{RowOf(job, gpus), {}};
  if (!job.queue) return listed;
  for (const auto& dependency : job.queue->asked.depends.list)
    if (const auto id = ParseInteger(dependency.job, 1, INT32_MAX)) listed.after.push_back(*id);
  if (job.queue->redo_of) listed.after.push_back(*job.queue->redo_of);
  return listed;
}

void Sort(std::vector<JobListEntry>& jobs, SortBy by, base::WallTime now) {
  const auto sort = [&](auto less) {
    std::stable_sort(jobs.begin(), jobs.end(),
                     [&](const JobListEntry& a, const JobListEntry& b) { return less(a.row, b.row); });
  };
  const auto time = [&](const api::QueueRow& row) { return RunTime(row, now).value_or(base::Millis(0)); };
  switch (by) {
    case SortBy::kQueue:
      return;
    case SortBy::kId:
      return sort([](const auto& a, const auto& b) { return a.id < b.id; });
    case SortBy::kState:
      return sort([](const auto& a, const auto& b) { return a.state < b.state; });
    case SortBy::kTime:
      return sort([&](const auto& a, const auto& b) { return time(a) > time(b); });
    case SortBy::kName:
      return sort([](const auto& a, const auto& b) { return a.tag < b.tag; });
    case SortBy::kGpus:
      return sort([](const auto& a, const auto& b) { return a.gpus_asked > b.gpus_asked; });
    case SortBy::kPriority:
      return sort([](const auto& a, const auto& b) { return a.priority > b.priority; });
  }
}

base::Result<std::vector<std::string>> ParseColumns(std::string_view text) {
  GPUMAN_ASSIGN(auto names, SplitList(text));
  for (auto& name : names) {
    name = base::UpperCase(name);
    if (name == "NODELIST" || name == "REASON") name = "NODELIST(REASON)";
    if (std::find(kColumns.begin(), kColumns.end(), name) == kColumns.end())
      return base::Fail(base::ErrorCode::kInvalidArgument, fmt::format("there is no column '{}'", name),
                        fmt::format("there are {}", fmt::join(kColumns, ", ")));
  }
  return names;
}

std::vector<std::string> UsualColumns() {
  return {"JOBID", "NAME", "USER", "STATE", "TIME", "TIMELIMIT", "GPUS", "NODELIST(REASON)", "START"};
}

std::string PlaceOrReason(const api::QueueRow& row) {
  if (!IsWaiting(row.state) && !row.gpus.empty()) return row.gpus;
  return row.reason.empty() ? "-" : fmt::format("({})", row.reason);
}

std::string RenderTable(const std::vector<JobListEntry>& jobs, const JobTableOptions& form,
                        const TerminalStyle& style, base::WallTime now) {
  const View view{now, form.place};
  std::vector<Column> columns;
  std::vector<CellMaker> makers;
  for (const auto& name : form.columns) {
    columns.push_back(ColumnOf(name));
    makers.push_back(MakerOf(name));
  }
  const auto render = [&](auto&& feed) {
    Table table(columns);
    feed([&](const JobListEntry& job, const std::string& prefix) {
      std::vector<Cell> cells;
      cells.reserve(makers.size());
      for (const auto make : makers) cells.push_back(make(job.row, view));
      if (!prefix.empty()) cells.front().text.insert(0, prefix);
      table.Add(std::move(cells));
    });
    return table.Render(style);
  };
  if (form.tree) return render([&](const AddRow& add) { Walk(Branches(jobs), 0, {}, add); });
  if (!form.group)
    return render([&](const AddRow& add) {
      for (const auto& job : jobs) add(job, {});
    });
  std::string text;
  for (const auto& [state, letters, word] : kStates) {
    std::vector<JobListEntry> some;
    std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(some),
                 [wanted = state](const JobListEntry& job) { return job.row.state == wanted; });
    if (some.empty()) continue;
    text += fmt::format("{}{} ({})\n", text.empty() ? "" : "\n", spec::ToString(state), some.size());
    text += RenderTable(some, {form.columns, false, false, form.place}, style, now);
  }
  return text;
}

std::string_view ShortState(JobState state) { return NamesOf(state).letters; }
std::string_view LongState(JobState state) { return NamesOf(state).word; }

std::optional<std::vector<std::string>> StatesOf(std::string_view word) {
  if (spec::JobStateFromString(word)) return std::vector{std::string(word)};
  const std::string upper = base::UpperCase(word);
  std::vector<std::string> states;
  for (const auto& [state, letters, name] : kStates) {
    const auto own = base::UpperCase(spec::ToString(state));
    if (upper == letters || upper == base::UpperCase(name) || upper == own)
      states.emplace_back(spec::ToString(state));
  }
  if (upper == "ALL") states = {"all"};
  if (upper == "PENDING") states = {"queued", "held"};
  if (upper == "COMPLETED") states = {"finished"};
  return states.empty() ? std::nullopt : std::optional(std::move(states));
}

std::optional<base::Millis> RunTime(const api::QueueRow& row, base::WallTime now) {
  if (!row.started_at) return std::nullopt;
  return std::max(base::Millis(0), row.ended_at.value_or(now) - *row.started_at);
}

std::string IdOf(const api::QueueRow& row) {
  return row.array_id && row.array_task ? fmt::format("{}_{}", *row.array_id, *row.array_task)
                                        : std::to_string(row.id);
}

}  // namespace gpuman::cli::queue
