#include "cli/story_views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/memory_parts.h"
#include "cli/queue/when.h"
#include "cli/views.h"

namespace gpuman::cli {
namespace {

// A screen has 24 rows, of which the next prompt takes one.
constexpr std::size_t kRows = 23;
constexpr std::size_t kMaxCauseLines = 5;
constexpr std::size_t kMaxPeaks = 8;
constexpr std::size_t kTitled = 2;  // a blank line and a title

using Lines = std::vector<std::string>;

Lines Indented(std::string_view text, const TerminalStyle& style, std::size_t first, std::size_t others) {
  const std::size_t widest = std::max(first, others);
  Lines lines =
      style.width ? Wrapped(text, *style.width - std::min(*style.width, widest)) : Lines{Printable(text)};
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i].insert(0, i == 0 ? first : others, ' ');
  return lines;
}

std::string CutTo(const TerminalStyle& style, const std::string& line) {
  return style.width ? Cut(line, *style.width) : line;
}

std::string Heading(const api::JobStory& story, const TerminalStyle& style) {
  const bool ended = spec::IsEnded(story.state);
  const std::string_view between = ended ? " has ended: " : " is ";
  const std::string state(ToString(story.state));
  const std::string cause =
      ended && story.cause != state ? fmt::format(" ({})", Printable(story.cause)) : std::string();
  const std::string job = fmt::format("job {} '", story.id);
  const std::size_t besides = job.size() + 1 + between.size() + state.size() + cause.size();
  const std::string tag = Printable(story.tag);
  return fmt::format("{}{}'{}{}{}", job,
                     style.width ? Cut(tag, *style.width - std::min(*style.width, besides)) : tag, between,
                     Paint(style, StateColor(story.state), state), cause);
}

Lines CauseLines(const api::JobStory& story, const TerminalStyle& style) {
  Lines lines = Indented(queue::WithLocalTimes(story.because), style, 2, 2);
  if (lines.size() > kMaxCauseLines) {
    lines.resize(kMaxCauseLines);
    lines.back() = CutTo(style, lines.back() + " …");
  }
  return lines;
}

// One thing that happened: its time, and its text on one line or on several.
class StoryText {
 public:
  StoryText(const api::StoryLine& line, const TerminalStyle& style)
      : style_(style),
        time_(queue::FormatLocal(line.at)),
        text_(Printable(queue::WithLocalTimes(line.text))) {
    if (line.times <= 1) return;
    const std::string last = queue::FormatLocal(line.last);
    const bool same_day = last.substr(0, kDay) == time_.substr(0, kDay);
    times_ =
        fmt::format(" ({} times, until {})", line.times, same_day ? queue::FormatTimeOfDay(line.last) : last);
  }

  Lines Whole() const {
    if (!style_.width) return {Headed(text_ + times_)};
    Lines lines = Wrapped(text_ + times_, Columns());
    for (std::size_t i = 0; i < lines.size(); ++i)
      lines[i] = i == 0 ? Headed(lines[i]) : std::string(Before(), ' ') + lines[i];
    return lines;
  }
  // If the line is cut, the count at its end stays.
  std::string OneLine() const {
    if (!style_.width) return Headed(text_ + times_);
    return Headed(Cut(text_, Columns() - std::min(Columns(), times_.size())) + times_);
  }

 private:
  static constexpr std::size_t kDay = 10;
  static constexpr std::size_t kBlanks = 2;  // before the time, and behind it

  std::size_t Before() const { return kBlanks + time_.size() + kBlanks; }
  std::size_t Columns() const { return *style_.width - std::min(*style_.width, Before()); }
  std::string Headed(const std::string& text) const {
    const std::string blanks(kBlanks, ' ');
    return blanks + Paint(style_, Color::kDim, time_) + blanks + text;
  }

  const TerminalStyle& style_;
  std::string time_, text_, times_;
};

std::string MoreLines(std::size_t more) { return fmt::format("  … {} more", more); }

// At most `room` lines: whole where there is room, which the last ones have first, else cut, and else some of
// them.
Lines StoryLines(const api::JobStory& story, const TerminalStyle& style, std::size_t room) {
  const std::size_t count = story.story.size();
  std::size_t first = story.left_out > 0
                          ? std::min(count, static_cast<std::size_t>(std::max(0, story.left_out_after)))
                          : count;
  std::size_t last = count - std::min(count, first);
  auto left_out = static_cast<std::size_t>(story.left_out);
  const bool fits = count + (left_out > 0 ? 1 : 0) <= room;
  if (!fits) {
    const std::size_t shown = std::max<std::size_t>(room, 2) - 1;
    first = std::min(first, shown / 3);
    last = std::min(count - first, shown - first);
    left_out += count - first - last;
  }
  const std::size_t needed = first + last + (left_out > 0 ? 1 : 0);
  std::size_t more = room - std::min(room, needed);  // beyond a line for each
  std::vector<Lines> told;                           // the last one first
  for (std::size_t i = count; i-- > 0;) {
    if (i >= first && i < count - last) continue;
    const StoryText text(story.story[i], style);
    Lines whole = text.Whole();
    const bool has_room = whole.size() - 1 <= more;
    if (has_room) more -= whole.size() - 1;
    told.push_back(has_room ? std::move(whole) : Lines{text.OneLine()});
  }
  std::reverse(told.begin(), told.end());
  if (left_out > 0)
    told.insert(told.begin() + static_cast<std::ptrdiff_t>(first), Lines{MoreLines(left_out)});
  Lines lines;
  for (Lines& one : told) std::move(one.begin(), one.end(), std::back_inserter(lines));
  return lines;
}

std::string Line(const api::MemoryPeakView& peak) {
  const std::string gpu = peak.number ? "GPU " + *peak.number : Printable(peak.gpu);
  const std::string parts = peak.parts ? base::FormatParts(*peak.parts) : "";
  const std::string who = !peak.pid ? "job"
                                    : fmt::format("process {}{}{}", *peak.pid, peak.program ? " " : "",
                                                  Printable(peak.program.value_or("")));
  return fmt::format("  {:<28} {:<6} {:>8}{}", who, gpu, base::FormatBytes(peak.bytes),
                     parts.empty() ? "" : fmt::format("  {}", parts));
}

// How many lines PeakLines would like to have. The story itself has the peak of a job of one process on one
// GPU.
std::size_t RowsOfPeaks(const std::vector<api::MemoryPeakView>& peaks) {
  const auto processes = std::ranges::count_if(peaks, [](const auto& peak) { return peak.pid.has_value(); });
  if (processes < 2 && std::ssize(peaks) - processes < 2) return 0;
  return kTitled + std::min(peaks.size(), kMaxPeaks + 1);
}

Lines PeakLines(const std::vector<api::MemoryPeakView>& peaks, const TerminalStyle& style, std::size_t room) {
  if (RowsOfPeaks(peaks) == 0 || room < kTitled + 2) return {};
  Lines lines{"", "Most memory at a time:"};
  std::size_t shown = std::min(kMaxPeaks, peaks.size());
  if (kTitled + shown + (peaks.size() > shown ? 1 : 0) > room) shown = room - kTitled - 1;
  for (std::size_t i = 0; i < shown; ++i) lines.push_back(CutTo(style, Line(peaks[i])));
  if (peaks.size() > shown) lines.push_back(MoreLines(peaks.size() - shown) + ", with --json");
  return lines;
}

Lines EndLines(const api::JobStory& story, const TerminalStyle& style) {
  Lines lines;
  if (story.used) {
    lines.emplace_back();
    for (auto& line : Indented(*story.used, style, 2, 2)) lines.push_back(std::move(line));
  }
  if (story.advice.empty()) return lines;
  lines.insert(lines.end(), {"", "What to do:"});
  for (const std::string& advice : story.advice)
    for (auto& line : Indented(advice, style, 2, 4)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

std::string RenderStory(const api::JobStory& story, const TerminalStyle& style) {
  Lines lines{Heading(story, style)};
  const auto add = [&lines](Lines more) { std::move(more.begin(), more.end(), std::back_inserter(lines)); };
  add(CauseLines(story, style));
  lines.emplace_back();
  Lines end = EndLines(story, style);
  const std::size_t taken = lines.size() + end.size();
  const std::size_t room = kRows - std::min(kRows, taken);
  // The story goes before peaks, of which the largest say most.
  const std::size_t peaks = std::min(RowsOfPeaks(story.peaks), room * 2 / 5);
  Lines told = StoryLines(story, style, room - (peaks >= kTitled + 2 ? peaks : 0));
  Lines most = PeakLines(story.peaks, style, room - std::min(room, told.size()));
  add(std::move(told));
  add(std::move(most));
  add(std::move(end));
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

}  // namespace gpuman::cli
