#include "base/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::base {
namespace {

std::optional<std::int64_t> NumberOf(std::string_view text) {
  const auto number = ParseNumber<std::int64_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

std::optional<KernelLogLine> ParseKernelLogLine(std::string_view line) {
  const auto semicolon = line.find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  auto prefix = line.substr(0, semicolon);
  const auto priority = NumberOf(TakeUntil(prefix, ','));
  TakeUntil(prefix, ',');  // the record's number
  const auto since_boot = NumberOf(TakeUntil(prefix, ','));
  if (!priority || !since_boot) return std::nullopt;
  constexpr int kLevels = 8;
  return KernelLogLine{*priority < kLevels, std::chrono::microseconds(*since_boot),
                       line.substr(semicolon + 1)};
}

Result<KernelLog> KernelLog::Open(const std::filesystem::path& path) {
  Fd log(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!log.ok()) return FailSystem(errno, "reading the kernel's log " + path.string());
  return KernelLog(std::move(log), path);
}

Result<std::string> KernelLog::ReadMore(std::size_t limit) {
  std::string text;
  std::array<char, 16'384> buffer{};  // each read returns one whole record
  while (text.size() < limit) {
    const auto got = ::read(log_.get(), buffer.data(), buffer.size());
    if (got > 0)
      text.append(buffer.data(), static_cast<std::size_t>(got));
    else if (got == 0 || errno == EAGAIN)
      break;
    else if (errno != EPIPE && errno != EINTR)  // EPIPE: records were overwritten meanwhile
      return FailSystem(errno, "reading the kernel's log " + path_.string());
  }
  return text;
}

}  // namespace gpuman::base
