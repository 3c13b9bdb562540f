#include "cli/story_views.h"

#include <fmt/format.h>

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
  if (!story.advice.empty()) text += "\nWhat to do:\n";
  for (const std::string& advice : story.advice) text += fmt::format("  {}\n", Printable(advice));
  return text;
}

}  // namespace gpuman::cli
