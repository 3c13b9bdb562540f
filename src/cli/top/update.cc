#include "cli/top/update.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "base/overloaded.h"
#include "cli/text.h"
#include "cli/top/frame.h"
#include "cli/top/job_page.h"
#include "cli/top/layout.h"
#include "cli/top/log_lines.h"
#include "cli/top/rows.h"

namespace gpuman::cli::top {
namespace {

using Effects = std::vector<Effect>;

constexpr base::Millis kPatience{3000};  // with a daemon that does not answer, before the screen says so

bool Chooses(const Row& row) { return row.id.kind != RowId::Kind::kHeading; }

// The nearest row that can be chosen: from `index` on, else before it; not `down`: the other way round. There
// are rows.
std::size_t Nearest(const std::vector<Row>& rows, std::size_t index, bool down) {
  index = std::min(index, rows.size() - 1);
  const auto from = rows.begin() + static_cast<std::ptrdiff_t>(index);
  const auto below = std::find_if(from, rows.end(), Chooses);
  const auto above = std::find_if(std::make_reverse_iterator(from + 1), rows.rend(), Chooses);
  const bool up = (!down || below == rows.end()) && above != rows.rend();
  if (up) return static_cast<std::size_t>(rows.rend() - above) - 1;
  return below == rows.end() ? index : static_cast<std::size_t>(below - rows.begin());
}

void Scroll(const State& state, std::size_t rows, ListState& choice) {
  const auto shown = LayoutOf(state).list_rows;
  if (shown == 0) return;
  choice.first = std::min(choice.first, rows - std::min(rows, shown));
  choice.first = std::min(choice.first, choice.index);
  if (choice.index >= choice.first + shown) choice.first = choice.index + 1 - shown;
  // A heading above the first row is shown with it.
  if (choice.index == 1 && choice.first == 1 && shown > 1) choice.first = 0;
}

void ChooseIn(State& state, const std::vector<Row>& rows, std::size_t index, bool down = true) {
  auto& choice = state.choice();
  if (rows.empty()) {
    choice = {};
    return;
  }
  choice.index = Nearest(rows, index, down);
  choice.id = rows[choice.index].id;
  Scroll(state, rows.size(), choice);
}

// Finds the chosen row again after rows have come, gone, or another order. Where it is gone, the row in its
// place is chosen.
void RestoreChoice(State& state) {
  const auto rows = RowsOf(state);
  auto& choice = state.choice();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.id == choice.id; });
  ChooseIn(state, rows, row == rows.end() ? choice.index : static_cast<std::size_t>(row - rows.begin()));
}

void Move(State& state, std::int64_t by) {
  const auto rows = RowsOf(state);
  if (rows.empty()) return;
  const auto last = static_cast<std::int64_t>(rows.size()) - 1;
  const auto to = std::clamp<std::int64_t>(static_cast<std::int64_t>(state.choice().index) + by, 0, last);
  ChooseIn(state, rows, static_cast<std::size_t>(to), by >= 0);
}

std::size_t RowsOfPageKey(const State& state) {
  return std::max<std::size_t>(
      1, LayoutOf(state).list_rows - std::min<std::size_t>(1, LayoutOf(state).list_rows));
}

void ScrollLog(State& state, std::int64_t by) {
  auto& page = *state.job_page;
  const auto most = static_cast<std::int64_t>(MostBack(state, state.size.columns, RowsOfJobPage(state)));
  page.back =
      static_cast<std::size_t>(std::clamp<std::int64_t>(static_cast<std::int64_t>(page.back) + by, 0, most));
}

bool NeedsShare(const State& state) {
  return state.page == Page::kSharing ||
         std::any_of(state.status.jobs.begin(), state.status.jobs.end(),
                     [](const auto& job) { return job.options.share && !spec::IsEnded(job.state); });
}

// A queue of many thousand jobs is asked for less often.
bool NeedsQueue(const State& state) {
  constexpr std::size_t kMany = 5000;
  constexpr Point kEach = 10;
  if (state.page != Page::kQueue) return false;
  return !state.queue || state.queue->size() < kMany || state.samples.now() % kEach == 0;
}

// The status is asked for with the next Tick.
void AskSoon(State& state) {
  if (!state.asking) state.asked_at = {};
}

// The plots of what has just been seen begin with what the daemon has recorded.
Effects AskForHistory(State& state, HistoryOf of) {
  if (!state.histories.insert(of).second) return {};
  return {AskHistory{std::move(of), state.interval}};
}

Effects AskForJob(State& state) {
  if (!state.job_page || std::exchange(state.asking_job, true)) return {};
  return {AskJob{state.job_page->job}};
}

Effects GoTo(State& state, Page page) {
  state.job_page.reset();
  state.page = page;
  RestoreChoice(state);
  AskSoon(state);
  return {};
}

std::string_view VerbOf(Action action) {
  switch (action) {
    case Action::kSuspend:
      return "suspend";
    case Action::kResume:
      return "resume";
    case Action::kCancel:
      return "cancel";
    case Action::kEnd:
      return "end";
    case Action::kKill:
      return "kill";
  }
  return "";
}

// The chosen row, or that of the job's page.
Row Chosen(const State& state) {
  Row chosen;
  if (state.job_page) {
    chosen.job = FindJob(state, state.job_page->job);
    if (!chosen.job && state.job_page->view) chosen.job = &*state.job_page->view;
    return chosen;
  }
  const auto rows = RowsOf(state);
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.id == state.choice().id; });
  return row == rows.end() ? chosen : *row;
}

void AskAboutProcess(State& state, Action action, const api::ProcessView& process) {
  const auto facts = state.facts.find(process.pid);
  if (process.gpuman)
    state.message = fmt::format("process {} is a part of gpuman", process.pid);
  else if (action != Action::kEnd && action != Action::kKill)
    state.message = fmt::format("process {} belongs to no job: gpuman attach takes it as one", process.pid);
  else if (facts == state.facts.end())
    state.message = fmt::format("process {} is not seen from here", process.pid);
  else
    state.question = Question{
        action, 0, facts->second.id,
        fmt::format("send {} to process {} '{}' of {}", action == Action::kKill ? "SIGKILL" : "SIGTERM",
                    process.pid, process.name.value_or(std::string(kUnknown)),
                    process.user.value_or(std::string(kUnknown)))};
  state.message_is_refusal = !state.question;
}

void AskWhether(State& state, Action action) {
  const Row row = Chosen(state);
  if (row.process && !row.job) {
    AskAboutProcess(state, action, *row.process);
    return;
  }
  const auto name = NameOf(row);
  if (!name) {
    state.message = "no job is chosen";
    state.message_is_refusal = true;
    return;
  }
  if (action == Action::kKill) {
    state.message = fmt::format("job {} is ended with e, which lets it save its work", name->id);
    state.message_is_refusal = true;
    return;
  }
  std::string text = fmt::format("{} job {} '{}'", VerbOf(action), name->id, name->tag);
  if (!name->user.empty()) text += fmt::format(" of {}", name->user);
  const auto* const job = FindJob(state, name->id);
  state.question = Question{action, name->id, {}, std::move(text), job && !spec::IsEnded(job->state)};
}

Effects OpenJob(State& state) {
  const auto name = NameOf(Chosen(state));
  if (!name) return {};
  JobPage page;
  page.job = name->id;
  state.job_page = std::move(page);
  return AskForJob(state);
}

Effects AnswerQuestion(State& state, const Key& key) {
  if (key.code == Key::Code::kEscape || key.character == "n" || key.character == "N") {
    state.question.reset();
    return {};
  }
  if (key.character != "y" && key.character != "Y") return {};
  const Question question = *std::exchange(state.question, {});
  state.message = question.text + ": asked";
  state.message_is_refusal = false;
  return {PerformAction{question}};
}

void EditFilter(State& state, const Key& key) {
  auto& filter = state.filter;
  switch (key.code) {
    case Key::Code::kCharacter:
      filter += key.character;
      break;
    case Key::Code::kBackspace:
      if (filter.empty()) state.filtering = false;
      while (!filter.empty() && (static_cast<unsigned char>(filter.back()) & 0xC0) == 0x80) filter.pop_back();
      if (!filter.empty()) filter.pop_back();
      break;
    case Key::Code::kEscape:
      filter.clear();
      state.filtering = false;
      break;
    case Key::Code::kEnter:
      state.filtering = false;
      break;
    case Key::Code::kUp:
      Move(state, -1);
      break;
    case Key::Code::kDown:
      Move(state, 1);
      break;
    default:
      break;
  }
  RestoreChoice(state);
}

constexpr std::array kOrderKeys{std::pair{'m', TopOrder::kMemory}, std::pair{'l', TopOrder::kUtilization},
                                std::pair{'a', TopOrder::kAge},    std::pair{'u', TopOrder::kUser},
                                std::pair{'j', TopOrder::kJob},    std::pair{'p', TopOrder::kPid},
                                std::pair{'C', TopOrder::kCpu},    std::pair{'H', TopOrder::kHostMemory}};
constexpr std::array kActionKeys{std::pair{'s', Action::kSuspend}, std::pair{'r', Action::kResume},
                                 std::pair{'c', Action::kCancel}, std::pair{'e', Action::kEnd},
                                 std::pair{'k', Action::kKill}};

// What the key stands for in the table; nullopt: nothing.
template <typename T, std::size_t size>
std::optional<T> MeaningOf(char key, const std::array<std::pair<char, T>, size>& table) {
  for (const auto& [letter, meaning] : table)
    if (letter == key) return meaning;
  return std::nullopt;
}

// Keys that mean the same on each page.
std::optional<Effects> CommonKey(State& state, char key) {
  if (const auto action = MeaningOf(key, kActionKeys)) {
    AskWhether(state, *action);
    return Effects{};
  }
  switch (key) {
    case 'q':
      return Effects{Quit{}};
    case 'h':
    case '?':
      state.help = true;
      return Effects{};
    case ' ':
      AskSoon(state);
      return AskForJob(state);
    case '1':
    case '2':
    case '3':
    case '4':
      return GoTo(state, kPages[static_cast<std::size_t>(key - '1')]);
    default:
      return std::nullopt;
  }
}

void ListKey(State& state, char key) {
  if (const auto order = MeaningOf(key, kOrderKeys)) state.order = *order;
  if (key == '/') state.filtering = true;
  if (key == 'i') state.inverted = !state.inverted;
  if (key == 'v') state.plots = !state.plots;
  if (key == 't') state.processes = !state.processes;
  RestoreChoice(state);
}

// How many rows the key goes down, where PageUp and PageDown go `page` rows; nullopt: it goes nowhere.
std::optional<std::int64_t> RowsDown(Key::Code code, std::size_t page) {
  switch (code) {
    case Key::Code::kUp:
      return -1;
    case Key::Code::kDown:
      return 1;
    case Key::Code::kPageUp:
      return -static_cast<std::int64_t>(page);
    case Key::Code::kPageDown:
      return static_cast<std::int64_t>(page);
    case Key::Code::kHome:
      return -INT32_MAX;
    case Key::Code::kEnd:
      return INT32_MAX;
    default:
      return std::nullopt;
  }
}

Effects JobPageKey(State& state, const Key& key) {
  if (const auto rows = RowsDown(key.code, RowsOfJobPage(state) / 2)) {
    ScrollLog(state, -*rows);
    return {};
  }
  switch (key.code) {
    case Key::Code::kEscape:
    case Key::Code::kEnter:
    case Key::Code::kBackspace:
    case Key::Code::kLeft:
      state.job_page.reset();
      RestoreChoice(state);
      break;
    default:
      break;
  }
  return {};
}

Effects ListMove(State& state, const Key& key) {
  if (const auto rows = RowsDown(key.code, static_cast<std::size_t>(RowsOfPageKey(state)))) {
    Move(state, *rows);
    return {};
  }
  const auto place = static_cast<std::size_t>(state.page);
  switch (key.code) {
    case Key::Code::kTab:
    case Key::Code::kRight:
      return GoTo(state, kPages[(place + 1) % kPages.size()]);
    case Key::Code::kBackTab:
    case Key::Code::kLeft:
      return GoTo(state, kPages[(place + kPages.size() - 1) % kPages.size()]);
    case Key::Code::kEnter:
      return OpenJob(state);
    case Key::Code::kEscape:
      if (state.filter.empty()) state.message = "q quits";
      state.message_is_refusal = false;
      state.filter.clear();
      RestoreChoice(state);
      break;
    default:
      break;
  }
  return {};
}

Effects OnKey(State& state, const Key& key) {
  if (state.question) return AnswerQuestion(state, key);
  if (state.help) {
    state.help = false;
    return {};
  }
  state.message.clear();
  if (state.filtering) {
    EditFilter(state, key);
    return {};
  }
  if (key.code == Key::Code::kCharacter && key.character.size() == 1) {
    const char character = key.character.front();
    if (auto common = CommonKey(state, character)) return *common;
    if (!state.job_page) ListKey(state, character);
    return {};
  }
  return state.job_page ? JobPageKey(state, key) : ListMove(state, key);
}

Effects OnClick(State& state, const ClickTarget& target) {
  if (state.question || state.help) return {};
  state.filtering = false;
  switch (target.kind) {
    case ClickTarget::Kind::kPage:
      return GoTo(state, kPages[target.index % kPages.size()]);
    case ClickTarget::Kind::kOrder:
      state.inverted = state.order == static_cast<TopOrder>(target.index) && !state.inverted;
      state.order = static_cast<TopOrder>(target.index);
      RestoreChoice(state);
      return {};
    case ClickTarget::Kind::kRow: {
      const auto rows = RowsOf(state);
      if (target.index >= rows.size() || !Chooses(rows[target.index])) return {};
      if (rows[target.index].id == state.choice().id) return OpenJob(state);
      ChooseIn(state, rows, target.index);
      return {};
    }
  }
  return {};
}

// The daemon did not answer, or says that it cannot.
std::string OldFigures(std::string_view why) { return fmt::format("these are old figures: {}", why); }

Effects OnStatus(State& state, base::Result<Snapshot> snapshot) {
  state.asking = false;
  if (!snapshot) {
    state.problem = OldFigures(snapshot.error().message);
    state.samples.AddGap();
    return {};
  }
  state.problem.clear();
  state.status = std::move(snapshot->status);
  state.facts = std::move(snapshot->facts);
  state.host = snapshot->host;
  state.now = snapshot->at;
  state.samples.Add(state.status, snapshot->share, state.now);
  if (snapshot->share) state.share = std::move(snapshot->share);
  if (snapshot->queue) state.queue = std::move(snapshot->queue);
  if (state.question && state.question->of_active) {
    const auto* const job = FindJob(state, state.question->job);
    if (!job || spec::IsEnded(job->state)) {
      state.message = fmt::format("{}: the job has ended meanwhile", state.question->text);
      state.message_is_refusal = true;
      state.question.reset();
    }
  }
  RestoreChoice(state);
  Effects effects;
  for (const auto& gpu : state.status.gpus)
    for (auto& effect : AskForHistory(state, {gpu.uuid})) effects.push_back(std::move(effect));
  return effects;
}

Effects OnJob(State& state, JobCame came) {
  state.asking_job = false;
  if (!state.job_page) return {};
  auto& page = *state.job_page;
  if (page.job != came.job) return AskForJob(state);
  page.problem = came.view ? std::string() : came.view.error().message;
  Effects effects = came.view ? AskForHistory(state, {{}, page.job}) : Effects();
  if (came.view) page.view = std::move(*came.view);
  if (came.story) page.story = std::move(*came.story);
  page.log_problem = came.log ? std::string() : came.log.error().message;
  if (came.log) {
    auto lines = LogLines(*came.log);
    // Scrolled back, the same lines stay in sight.
    if (page.back > 0 && lines.size() > page.log.size()) page.back += lines.size() - page.log.size();
    page.log = std::move(lines);
  }
  ScrollLog(state, 0);
  return effects;
}

void OnDone(State& state, const ActionResult& done) {
  state.message_is_refusal = !done.sentence;
  if (done.sentence) {
    state.message = *done.sentence;
  } else {
    const auto& error = done.sentence.error();
    state.message = error.message + (error.hint.empty() ? "" : fmt::format(" ({})", error.hint));
  }
  AskSoon(state);
}

Effects OnTick(State& state, base::MonoTime now) {
  state.ticked_at = now;
  if (state.asking) {
    const auto silent = std::chrono::floor<std::chrono::seconds>(now - state.asked_at);
    if (silent >= kPatience)
      state.problem =
          OldFigures(fmt::format("the daemon has not answered for {}", base::FormatDuration(silent)));
    return {};
  }
  if (now < state.asked_at + state.interval) return {};
  state.asking = true;
  state.asked_at = now;
  Effects effects{AskStatus{NeedsShare(state), NeedsQueue(state)}};
  for (auto& effect : AskForJob(state)) effects.push_back(std::move(effect));
  return effects;
}

void OnWheel(State& state, int rows) {
  if (state.question || state.help) return;
  if (state.job_page)
    ScrollLog(state, -rows);
  else
    Move(state, rows);
}

}  // namespace

std::vector<Effect> Update(State& state, Event event) {
  return std::visit(
      base::Overloaded{[&](const Key& key) { return OnKey(state, key); },
                       [&](const Click& click) { return OnClick(state, click.target); },
                       [&](const Wheel& wheel) {
                         OnWheel(state, wheel.rows);
                         return Effects{};
                       },
                       [&](const Resized& resized) {
                         state.size = resized.size;
                         if (!state.job_page) RestoreChoice(state);
                         return Effects{};
                       },
                       [&](const Tick& tick) { return OnTick(state, tick.now); },
                       [&](StatusCame& came) { return OnStatus(state, std::move(came.snapshot)); },
                       [&](JobCame& came) { return OnJob(state, std::move(came)); },
                       [&](const HistoryCame& came) {
                         // Without it the plots begin when top was opened.
                         if (came.history) state.samples.AddBefore(*came.history, state.interval);
                         return Effects{};
                       },
                       [&](const ActionResult& done) {
                         OnDone(state, done);
                         return Effects{};
                       }},
      event);
}

base::MonoTime NextTick(const State& state) {
  if (!state.asking) return state.asked_at + state.interval;
  // While the daemon is silent, the screen counts seconds.
  return std::max(state.asked_at + kPatience, state.ticked_at + std::chrono::seconds(1));
}

}  // namespace gpuman::cli::top
