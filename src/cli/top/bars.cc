#include "cli/top/bars.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace gpuman::cli::top {
namespace {

constexpr std::array<std::string_view, 8> kBarParts{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
constexpr std::array<std::string_view, 8> kStripLevels{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 4> kAsciiStripLevels{"_", "-", "+", "#"};

}  // namespace

std::string Bar(double part, std::size_t width, bool unicode) {
  part = std::isfinite(part) ? std::clamp(part, 0.0, 1.0) : 0;
  const std::size_t fine = unicode ? kBarParts.size() : 1;
  auto filled = static_cast<std::size_t>(part * static_cast<double>(width * fine));
  if (part > 0 && width > 0) filled = std::max<std::size_t>(filled, 1);
  std::string text;
  for (std::size_t i = 0; i < filled / fine; ++i) text += unicode ? "█" : "#";
  std::size_t columns = filled / fine;
  if (filled % fine != 0) {
    text += kBarParts[filled % fine];
    ++columns;
  }
  for (; columns < width; ++columns) text += unicode ? "░" : ".";
  return text;
}

std::string Strip(std::span<const std::optional<double>> values, bool unicode) {
  const auto levels = unicode ? std::span<const std::string_view>(kStripLevels)
                              : std::span<const std::string_view>(kAsciiStripLevels);
  std::string text;
  for (const auto& value : values) {
    if (!value || !std::isfinite(*value)) {
      text += ' ';
      continue;
    }
    const auto level = std::lround(std::clamp(*value, 0.0, 1.0) * static_cast<double>(levels.size() - 1));
    text += levels[static_cast<std::size_t>(level)];
  }
  return text;
}

}  // namespace gpuman::cli::top
