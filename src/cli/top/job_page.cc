#include "cli/top/job_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/queue/when.h"
#include "cli/text.h"
#include "cli/top/columns.h"
#include "cli/top/gpu_panel.h"
#include "cli/top/rows.h"
#include "cli/views.h"

namespace gpuman::cli::top {
namespace {

constexpr std::size_t kMaxWrapped = 3;  // lines of a sentence

// The newest view of the page's job.
const api::JobView* JobOf(const State& state) {
  if (const auto* const job = FindJob(state, state.job_page->job)) return job;
  return state.job_page->view ? &*state.job_page->view : nullptr;
}

class Lines {
 public:
  explicit Lines(std::size_t columns) : columns_(columns) {}

  void Add(Line line) { lines_.push_back(std::move(line)); }
  // "label  text", wrapped below itself.
  void Fact(std::string_view label, std::string_view text, Ink ink = Ink::kPlain) {
    constexpr std::size_t kLabel = 11;
    auto wrapped = Wrapped(text, columns_ - std::min(columns_, kLabel));
    if (wrapped.size() > kMaxWrapped) {
      wrapped.resize(kMaxWrapped);
      wrapped.back() += " …";
    }
    for (std::size_t i = 0; i < wrapped.size(); ++i)
      Add(Line().Add(Fit(i == 0 ? label : "", kLabel), Ink::kDim).Add(wrapped[i], ink));
  }
  std::vector<Line> Take() { return std::move(lines_); }

 private:
  std::size_t columns_;
  std::vector<Line> lines_;
};

std::string GpuNumbers(const State& state, const api::JobView& job) {
  if (spec::IsWaiting(job.state)) return "not yet on a GPU";
  return job.gpus.empty() ? "no GPU" : "GPU " + api::NumbersOf(job.gpus, state.status.gpus);
}

std::string PlaceText(const State& state, const api::JobView& job) {
  const auto& memory = job.memory;
  std::string text = fmt::format("{}; {} used", GpuNumbers(state, job), SizeText(memory.used));
  text += memory.limit ? fmt::format(" of {}", base::FormatBytes(*memory.limit)) : std::string(", no limit");
  text += fmt::format(", peak {}", SizeText(memory.peak));
  if (memory.host) text += fmt::format(", {} in host memory", base::FormatBytes(*memory.host));
  text += fmt::format("; priority {}{}", job.options.priority, job.options.share ? ", shares" : "");
  if (job.restarts > 0) text += fmt::format("; started again {} times", job.restarts);
  return text;
}

std::string TimesText(const State& state, const api::JobView& job) {
  std::string text = fmt::format("submitted {}", queue::FormatLocal(job.submitted_at));
  if (job.started_at) text += fmt::format("; started {}", queue::FormatLocal(*job.started_at));
  if (job.ended_at) text += fmt::format("; ended {}", queue::FormatLocal(*job.ended_at));
  if (job.started_at)
    text += fmt::format("; ran {}", AgeText(job.ended_at.value_or(state.now) - *job.started_at));
  if (job.queue && job.queue->estimated_start && spec::IsWaiting(job.state)) {
    const auto at = *job.queue->estimated_start;
    text += fmt::format("; starts {}", job.queue->estimate_presumed ? queue::FormatAbout(at, state.now)
                                                                    : queue::FormatWhen(at, state.now));
  }
  return text;
}

std::vector<Line> Facts(const State& state, const api::JobView& job, std::size_t columns) {
  Lines lines(columns);
  lines.Fact("state", StateText(job), InkOf(job.state));
  lines.Fact("place", PlaceText(state, job));
  lines.Fact("times", TimesText(state, job));
  lines.Fact("command", CommandText(job.command));
  lines.Fact("directory", job.directory);
  if (job.reason_detail) lines.Fact("reason", queue::WithLocalTimes(*job.reason_detail), InkOf(job.state));
  if (job.refusal && !spec::IsEnded(job.state)) lines.Fact("refused", job.refusal->message, Ink::kWarning);
  for (const auto& note : job.notes) lines.Fact("note", note);
  return lines.Take();
}

// A letter for each state, so that a strip can be read without colours.
char LetterOf(spec::JobState state) {
  switch (state) {
    case spec::JobState::kQueued:
      return 'q';
    case spec::JobState::kHeld:
      return 'h';
    case spec::JobState::kStarting:
      return 's';
    case spec::JobState::kRunning:
      return 'R';
    case spec::JobState::kSuspended:
      return 'S';
    case spec::JobState::kStopping:
      return 'x';
    default:
      return '.';
  }
}

// One letter a column below a plot of that form: the state of the column's last point.
Line StateStrip(const State& state, const JobSeries& series, const PlotOptions& form) {
  const auto columns = PlotColumns(form);
  const auto points = PointsOf(state, &series.state, form);
  const auto each = points.size() / columns;
  Line line;
  line.Add(Fit("state", form.label, true), Ink::kDim).PadTo(form.width - columns);
  for (std::size_t column = 0; column < columns; ++column) {
    const auto& point = points[(column + 1) * each - 1];
    if (!point) {
      line.Add(" ");
      continue;
    }
    const auto job_state = static_cast<spec::JobState>(static_cast<int>(*point));
    line.Add(std::string(1, LetterOf(job_state)), InkOf(job_state));
  }
  return line;
}

std::vector<Line> Plots(const State& state, const api::JobView& job, std::size_t columns, std::size_t rows) {
  constexpr std::size_t kMinRows = 3, kMinColumns = 16;
  const auto* const series = state.samples.Job(job.id);
  if (!series || rows < kMinRows || columns < kMinColumns) return {};
  auto form = FormOf(state, columns, rows - 1, 1);
  const auto points = PointsOf(state, &series->memory, form);
  double most = job.memory.limit ? static_cast<double>(job.memory.limit->count) : 0;
  for (const auto& point : points) most = std::max(most, point.value_or(0));
  form.top = most > 0 ? most : 1;
  const auto upper = most > 0 ? base::FormatBytes(base::Bytes{static_cast<std::uint64_t>(most)}) : "mem";
  auto lines = PlotLines(points, form, {upper, SpanText(state, points.size())}, Ink::kMemory);
  lines.push_back(StateStrip(state, *series, form));
  return lines;
}

std::vector<Line> Why(const State& state, std::size_t columns, std::size_t rows) {
  const auto& story = state.job_page->story;
  if (!story || rows == 0) return {};
  Lines lines(columns);
  lines.Fact("why", queue::WithLocalTimes(story->because));
  for (const auto& advice : story->advice) lines.Fact("what to do", advice);
  auto all = lines.Take();
  // The newest lines of the story that fit.
  const auto room = rows - std::min(rows, all.size());
  const auto skip = story->story.size() - std::min(room, story->story.size());
  for (std::size_t i = skip; i < story->story.size(); ++i) {
    const auto& told = story->story[i];
    Line line;
    line.Add(Fit("  " + queue::FormatTimeOfDay(told.at), 11), Ink::kDim)
        .Add(queue::WithLocalTimes(told.text));
    if (told.times > 1) line.Add(fmt::format(" ({} times)", told.times));
    all.push_back(std::move(line));
  }
  if (all.size() > rows) all.resize(rows);
  return all;
}

// The lines above the log.
std::vector<Line> Head(const State& state, std::size_t columns, std::size_t rows) {
  const auto* const job = JobOf(state);
  std::vector<Line> lines;
  if (!job) {
    const auto& problem = state.job_page->problem;
    lines.push_back(Line().Add(problem.empty() ? "The daemon is asked for the job." : problem,
                               problem.empty() ? Ink::kDim : Ink::kBad));
    return lines;
  }
  // In a large window the log has a third, and in a small one what facts leave, but always something.
  const std::size_t most = rows - std::min(rows, std::max<std::size_t>(3, rows / 3));
  const auto add = [&](const std::vector<Line>& more) {
    for (const auto& line : more)
      if (lines.size() < most) lines.push_back(line);
  };
  add(Facts(state, *job, columns));
  const auto left = [&] { return most - std::min(most, lines.size()); };
  const bool ended = spec::IsEnded(job->state);
  const std::size_t why = ended ? left() / 2 : left() / 3;
  const auto plots = Plots(state, *job, columns, std::min<std::size_t>(left() - why, 13));
  add(plots);
  add(Why(state, columns, left()));
  return lines;
}

}  // namespace

std::size_t MostBack(const State& state, std::size_t columns, std::size_t rows) {
  const auto head = Head(state, columns, rows).size() + 1;
  const auto room = rows - std::min(rows, head);
  const auto lines = state.job_page->log.size();
  return lines - std::min(lines, room);
}

std::vector<Line> JobPageLines(const State& state, std::size_t columns, std::size_t rows) {
  const auto& page = *state.job_page;
  auto lines = Head(state, columns, rows);
  const auto back = std::min(page.back, MostBack(state, columns, rows));
  std::string title = back == 0 ? "log, its end" : fmt::format("log, {} lines back", back);
  if (!page.log_problem.empty()) title = "log: " + page.log_problem;
  lines.push_back(Line().Add(title, Ink::kTitle));
  const auto room = rows - std::min(rows, lines.size());
  const auto end = page.log.size() - std::min(back, page.log.size());
  for (std::size_t i = end - std::min(end, room); i < end; ++i) lines.push_back(Line().Add(page.log[i]));
  if (lines.size() > rows) lines.resize(rows);
  return lines;
}

}  // namespace gpuman::cli::top
