#include "mps/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace gpuman::mps {
namespace {

using base::ErrorCode;
using base::Fail;

std::string_view Trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

// One line of the answer, limited in length.
tl::unexpected<base::Error> Refusal(std::string_view answer) {
  std::string text(Trimmed(answer).substr(0, 200));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }, ' ');
  return Fail(ErrorCode::kConflict, fmt::format("nvidia-cuda-mps-control answers: {}", text));
}

template <typename Number>
std::optional<Number> Read(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "8192M", "8G", "8GB", "4096".
std::optional<base::Bytes> SizeOf(std::string_view text) {
  if (text.ends_with('B') || text.ends_with('b')) text.remove_suffix(1);
  std::uint64_t unit = 1;
  constexpr std::string_view kUnits = "KMGT";
  if (!text.empty())
    if (const auto at = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
        at != std::string_view::npos) {
      unit = std::uint64_t{1} << (10 * (at + 1));
      text.remove_suffix(1);
    }
  const auto number = Read<std::uint64_t>(Trimmed(text));
  if (!number || *number > std::numeric_limits<std::uint64_t>::max() / unit) return std::nullopt;
  return base::Bytes{*number * unit};
}

}  // namespace

base::Result<std::vector<pid_t>> ParsePids(std::string_view answer) {
  std::vector<pid_t> pids;
  for (std::string_view rest = answer; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const auto line = Trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    const auto pid = Read<pid_t>(line);
    if (!pid || *pid <= 0) return Refusal(answer);
    pids.push_back(*pid);
  }
  return pids;
}

base::Result<double> ParsePercentage(std::string_view answer) {
  const auto number = ThreadsVariable(Trimmed(answer));
  if (!number) return Refusal(answer);
  return *number;
}

base::Result<std::optional<base::Bytes>> ParseMemoryLimit(std::string_view answer) {
  const auto text = Trimmed(answer);
  if (text.empty()) return std::optional<base::Bytes>();
  const auto size = SizeOf(text);
  if (!size) return Refusal(answer);
  return size->count == 0 ? std::optional<base::Bytes>() : size;
}

base::Result<> ParseDone(std::string_view answer) {
  const auto text = Trimmed(answer);
  if (text.empty() || ThreadsVariable(text) || SizeOf(text)) return {};
  return Refusal(answer);
}

std::optional<base::Bytes> MemoryVariable(std::string_view text) {
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    const auto entry = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!entry.starts_with("0=")) continue;
    const auto size = SizeOf(entry.substr(2));
    return size && size->count > 0 ? size : std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> ThreadsVariable(std::string_view text) {
  const auto number = Read<double>(Trimmed(text));
  return number && std::isfinite(*number) && *number >= 0 && *number <= 100 ? number : std::nullopt;
}

}  // namespace gpuman::mps
