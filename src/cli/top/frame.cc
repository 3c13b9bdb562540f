#include "cli/top/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "cli/queue/when.h"
#include "cli/text.h"
#include "cli/top/columns.h"
#include "cli/top/gpu_panel.h"
#include "cli/top/job_page.h"
#include "cli/top/layout.h"
#include "cli/top/rows.h"
#include "cli/views.h"

namespace gpuman::cli::top {
namespace {

// Each fits 80 columns.
constexpr std::array<std::string_view, 22> kHelp{
    "gpuman top: keys",
    "",
    "  1 2 3 4, Tab     pages: jobs, queue, sharing, processes; or click the name",
    "  Up Down PgUp PgDn Home End, wheel, click   choose a row",
    "  Enter, click     the page of the chosen job; Esc goes back",
    "  /                filter: gpu:0 user:ann name:bert id:7 state:running, a word",
    "  Esc              leave the filter",
    "",
    "  s r              suspend, resume the chosen job",
    "  c e              cancel it: its result stays; end it: it leaves the list",
    "  e k              of a process of no job: send SIGTERM, SIGKILL",
    "                   All of these ask first: y or n.",
    "",
    "  m l a u j p C H  sort by memory, utilization, age, user, job, pid, CPU, host",
    "                   memory; or click a title. i: the other way round",
    "  v t              plots, processes below jobs: shown or not",
    "  space            refresh now",
    "  h ?              this help; any key leaves it. q: quit",
    "",
    "GPU% is of that row alone. OVER TIME: the higher, the longer it had its turn.",
    "States: q queued, h held, s starting, R running, S suspended, x stopping.",
    "GPUs that are degraded or unhealthy: gpuman health says what to do."};

// "driver 580.159.04, CUDA 13.0"; empty: not known.
std::string DriverText(const State& state) {
  if (!state.status.driver_version) return {};
  return fmt::format("driver {}, CUDA {}", *state.status.driver_version,
                     state.status.cuda_version.value_or(std::string(kUnknown)));
}

Line HeadLine(const State& state) {
  Line line;
  line.Add("gpuman top ", Ink::kTitle);
  for (const auto page : kPages) {
    const bool chosen = page == state.page && !state.job_page;
    line.Add(" ").Add(fmt::format("{}{}{}", chosen ? "[" : " ", TitleOf(page), chosen ? "]" : " "),
                      chosen ? Ink::kChosen : Ink::kPlain,
                      {ClickTarget::Kind::kPage, static_cast<std::size_t>(page)});
  }
  line.Add(fmt::format("  {}", queue::FormatTimeOfDay(state.now)));
  if (!state.filter.empty() && !state.filtering)
    line.Add("  ").Add(fmt::format("/{}", state.filter), Ink::kWarning);
  const auto driver = DriverText(state);
  if (const auto end = line.width() + 2 + driver.size(); !driver.empty() && end <= state.size.columns)
    line.PadTo(state.size.columns - driver.size()).Add(driver, Ink::kDim);
  return line;
}

std::string Summary(const State& state) {
  std::map<spec::JobState, std::size_t> counts;
  for (const auto& job : state.status.jobs) ++counts[job.state];
  counts[spec::JobState::kQueued] +=
      static_cast<std::size_t>(std::max<std::int64_t>(0, state.status.waiting_left_out));
  std::string text = "Jobs:";
  for (const auto job_state :
       {spec::JobState::kRunning, spec::JobState::kStarting, spec::JobState::kSuspended,
        spec::JobState::kStopping, spec::JobState::kQueued, spec::JobState::kHeld}) {
    const auto count = counts[job_state];
    if (count == 0 && job_state != spec::JobState::kRunning && job_state != spec::JobState::kQueued) continue;
    text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",", count, spec::ToString(job_state));
  }
  if (state.host)
    text +=
        fmt::format("   host: load {:.1f} ({} CPUs), memory {}/{}", state.host->load, state.host->processors,
                    base::FormatBytes(state.host->used), base::FormatBytes(state.host->total));
  return text;
}

void AddPanels(const State& state, const Layout& layout, std::vector<Line>& lines) {
  const auto gpus = GpusShown(state);
  for (std::size_t first = 0; first < layout.panels; first += layout.panels_beside) {
    std::vector<Line> row(layout.PanelRows());
    for (std::size_t i = first; i < std::min(first + layout.panels_beside, layout.panels); ++i) {
      const auto panel = GpuPanel(state, *gpus[i], layout.panel_columns, layout.details, layout.plot_rows);
      for (std::size_t line = 0; line < row.size(); ++line) {
        if (i > first) row[line].Add("  ");
        row[line].Add(panel[line]);
      }
    }
    for (auto& line : row) lines.push_back(std::move(line));
  }
  if (layout.more_panels)
    lines.push_back(Line().Add(
        fmt::format("… {} more GPUs: a larger window, or gpuman status", gpus.size() - layout.panels),
        Ink::kDim));
}

void AddFaults(const State& state, const Layout& layout, std::vector<Line>& lines) {
  if (state.status.gpus.empty()) {
    if (layout.faults > 0)
      lines.push_back(Line().Add(
          state.status.driver_error ? "No GPUs: " + *state.status.driver_error : std::string("No GPUs."),
          Ink::kWarning));
    return;
  }
  const auto faults = Faults(state);
  for (std::size_t i = 0; i < std::min(layout.faults, faults.size()); ++i)
    lines.push_back(Line().Add(faults[i], Ink::kBad));
}

std::string_view EmptyText(const State& state) {
  if (!state.filter.empty()) return "Nothing fits the filter; Esc leaves it.";
  switch (state.page) {
    case Page::kJobs:
      return "No job runs, and nothing is on the GPUs.";
    case Page::kQueue:
      return state.queue ? "No job waits." : "The daemon is asked for the queue.";
    case Page::kSharing:
      return state.share ? "No job shares a GPU (gpuman run --share)." : "The daemon is asked who shares.";
    case Page::kProcesses:
      return "No process is on the GPUs.";
  }
  return "";
}

void AddList(const State& state, const Layout& layout, std::vector<Line>& lines) {
  const auto columns = ColumnsOf(state.page, state.size.columns);
  const auto rows = RowsOf(state);
  if (layout.titles) lines.push_back(TitleLine(state, columns).PadTo(state.size.columns));
  if (rows.empty() && layout.list_rows > 0)
    lines.push_back(Line().Add("  ").Add(EmptyText(state), Ink::kDim));
  const auto first = std::min(state.choice().first, rows.size());
  for (std::size_t i = first; i < std::min(rows.size(), first + layout.list_rows); ++i) {
    Line line = RowLine(state, columns, rows[i]);
    line.PadTo(state.size.columns);
    if (rows[i].id == state.choice().id && rows[i].id.kind != RowId::Kind::kHeading) line.Dye(Ink::kChosen);
    line.TargetAll({ClickTarget::Kind::kRow, i});
    lines.push_back(std::move(line));
  }
}

// More about the chosen row than its line has room for.
std::string AboutChosen(const State& state) {
  const auto rows = RowsOf(state);
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.id == state.choice().id; });
  if (row == rows.end()) return {};
  auto place = fmt::format("{}/{}  ", row - rows.begin() + 1, rows.size());
  if (row->share_job && row->share_job->detail) return place + *row->share_job->detail;
  if (row->process) return place + ProcessCommand(*row->process);
  const auto* const job = row->queued ? FindJob(state, row->queued->id) : row->job;
  if (!job) return place;
  if (job->reason_detail) return place + queue::WithLocalTimes(*job->reason_detail);
  return place + StateText(*job) + ": " + CommandText(job->command);
}

Line StatusLine(const State& state) {
  Line line;
  if (state.help) return line;
  if (state.question)
    line.Add(state.question->text + "? y/n", Ink::kWarning);
  else if (state.filtering)
    line.Add("/", Ink::kTitle)
        .Add(state.filter)
        .Add("_", Ink::kChosen)
        .Add("  Enter: keep it, Esc: leave it", Ink::kDim);
  else if (!state.message.empty())
    line.Add(state.message_is_refusal ? "! " : "", Ink::kBad)
        .Add(state.message, state.message_is_refusal ? Ink::kBad : Ink::kGood);
  else if (!state.job_page)
    line.Add(AboutChosen(state), Ink::kDim);
  return line;
}

Line KeysLine(const State& state) {
  std::string_view keys = "q quit  h help  / filter  Enter job  Tab page  s suspend r resume c cancel e end";
  if (state.job_page) keys = "Esc back  q quit  h help  Up/Down log  s suspend  r resume  c cancel  e end";
  if (state.question) keys = "y yes  n no";
  if (state.help) keys = "any key: back";
  return Line().Add(keys, Ink::kDim);
}

std::vector<Line> HelpLines(const State& state) {
  std::vector<Line> lines;
  lines.reserve(kHelp.size());
  for (const auto text : kHelp) lines.push_back(Line().Add(text, lines.empty() ? Ink::kTitle : Ink::kPlain));
  if (const auto driver = DriverText(state); !driver.empty()) lines.front().Add("   " + driver, Ink::kDim);
  return lines;
}

Line JobHead(const State& state) {
  Line line;
  const auto id = state.job_page->job;
  const auto* job = FindJob(state, id);
  if (!job && state.job_page->view) job = &*state.job_page->view;
  line.Add(fmt::format("job {}", id), Ink::kTitle);
  if (job) line.Add(fmt::format(" '{}' of {}", job->tag, job->user), Ink::kTitle);
  return line.Add(fmt::format("  {}", queue::FormatTimeOfDay(state.now)));
}

// The upper part of the screen, without status and keys.
std::vector<Line> Body(const State& state, const Layout& layout) {
  if (state.help) return HelpLines(state);
  std::vector<Line> lines{state.job_page ? JobHead(state) : HeadLine(state)};
  if (layout.problem) lines.push_back(Line().Add("! " + state.problem, Ink::kBad));
  if (state.job_page) {
    for (auto& line : JobPageLines(state, state.size.columns, RowsOfJobPage(state)))
      lines.push_back(std::move(line));
    return lines;
  }
  if (layout.summary) lines.push_back(Line().Add(Summary(state)));
  AddPanels(state, layout, lines);
  AddFaults(state, layout, lines);
  AddList(state, layout, lines);
  return lines;
}

}  // namespace

std::string_view TitleOf(Page page) {
  switch (page) {
    case Page::kJobs:
      return "1 Jobs";
    case Page::kQueue:
      return "2 Queue";
    case Page::kSharing:
      return "3 Sharing";
    case Page::kProcesses:
      return "4 Processes";
  }
  return "";
}

std::size_t RowsOfJobPage(const State& state) {
  const auto layout = LayoutOf(state);
  const std::size_t others =
      1 + (layout.problem ? 1U : 0U) + (layout.status ? 1U : 0U) + (layout.keys ? 1U : 0U);
  return state.size.rows - std::min(state.size.rows, others);
}

Picture Draw(const State& state) {
  const auto layout = LayoutOf(state);
  Picture picture;
  const std::size_t foot = (layout.status ? 1U : 0U) + (layout.keys ? 1U : 0U);
  picture.lines = Body(state, layout);
  picture.lines.resize(state.size.rows - std::min(state.size.rows, foot));
  if (layout.status) picture.lines.push_back(StatusLine(state));
  if (layout.keys) picture.lines.push_back(KeysLine(state));
  picture.lines.resize(state.size.rows);
  for (auto& line : picture.lines) {
    line.CutTo(state.size.columns);
    if (!state.unicode) line.Replace("…", "~");
  }
  return picture;
}

}  // namespace gpuman::cli::top
