#include "cli/story_views.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/memory_parts.h"
#include "cli/queue/when.h"
#include "cli/views.h"

namespace gpuman::cli {
namespace {

std::string Line(const api::StoryLine& line, const TerminalStyle& style) {
  std::string text = fmt::format("  {}  {}", Paint(style, Color::kDim, queue::FormatLocal(line.at)),
                                 Printable(queue::WithLocalTimes(line.text)));
  if (line.times > 1) text += fmt::format(" ({} times, until {})", line.times, queue::FormatLocal(line.last));
  return text + "\n";
}

std::string Line(const api::MemoryPeakView& peak) {
  const std::string gpu = peak.number ? "GPU " + *peak.number : Printable(peak.gpu);
  const std::string parts = peak.parts ? base::FormatParts(*peak.parts) : "";
  const std::string who = !peak.pid ? "job"
                                    : fmt::format("process {}{}{}", *peak.pid, peak.program ? " " : "",
                                                  Printable(peak.program.value_or("")));
  return fmt::format("  {:<28} {:<6} {:>8}{}\n", who, gpu, base::FormatBytes(peak.bytes),
                     parts.empty() ? "" : fmt::format("  {}", parts));
}

// The story itself has the peak of a job of one process on one GPU.
std::string PeaksText(const std::vector<api::MemoryPeakView>& peaks) {
  constexpr std::size_t kMost = 8;
  const auto processes = std::ranges::count_if(peaks, [](const auto& peak) { return peak.pid.has_value(); });
  if (processes < 2 && std::ssize(peaks) - processes < 2) return "";
  std::string text = "\nMost memory at a time:\n";
  for (std::size_t i = 0; i < std::min(kMost, peaks.size()); ++i) text += Line(peaks[i]);
  if (peaks.size() > kMost) text += fmt::format("  … {} more, with --json\n", peaks.size() - kMost);
  return text;
}

}  // namespace

std::string RenderStory(const api::JobStory& story, const TerminalStyle& style) {
  std::string text = fmt::format("job {} '{}' {} {}", story.id, Printable(story.tag),
                                 spec::IsEnded(story.state) ? "has ended:" : "is",
                                 Paint(style, StateColor(story.state), std::string(ToString(story.state))));
  if (spec::IsEnded(story.state) && story.cause != ToString(story.state))
    text += fmt::format(" ({})", Printable(story.cause));
  text += fmt::format("\n  {}\n\n", Printable(queue::WithLocalTimes(story.because)));
  for (std::size_t i = 0; i < story.story.size(); ++i) {
    if (story.left_out > 0 && i == static_cast<std::size_t>(story.left_out_after))
      text += fmt::format("  … {} more\n", story.left_out);
    text += Line(story.story[i], style);
  }
  text += PeaksText(story.peaks);
  if (story.used) text += fmt::format("\n  {}\n", Printable(*story.used));
  if (!story.advice.empty()) text += "\nWhat to do:\n";
  for (const std::string& advice : story.advice) text += fmt::format("  {}\n", Printable(advice));
  return text;
}

}  // namespace gpuman::cli
