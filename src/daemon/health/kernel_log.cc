#include "daemon/health/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "base/fd.h"

namespace gpuman::daemon {
namespace {

constexpr std::size_t kMax = 64U << 20U;  // no kernel keeps more

// "6,1187,98765432,-" -> 98765432 us
std::optional<std::chrono::microseconds> TimeOf(std::string_view prefix) {
  for (int skip = 0; skip < 2; ++skip) {
    const auto comma = prefix.find(',');
    if (comma == std::string_view::npos) return std::nullopt;
    prefix.remove_prefix(comma + 1);
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(prefix.data(), prefix.data() + prefix.size(), number);
  if (error != std::errc() || end == prefix.data() || number < 0) return std::nullopt;
  return std::chrono::microseconds(number);
}

}  // namespace

std::vector<KernelXid> KernelXidsOf(std::string_view text) {
  std::vector<KernelXid> xids;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const auto semicolon = line.find(';');
    if (semicolon == std::string_view::npos) continue;
    const auto at = TimeOf(line.substr(0, semicolon));
    auto logged = at ? health::ParseXidLine(line.substr(semicolon + 1)) : std::nullopt;
    if (logged) xids.push_back({std::move(*logged), *at});
  }
  return xids;
}

base::Result<std::vector<KernelXid>> ReadKernelXids(const std::filesystem::path& path) {
  const base::Fd log(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!log.ok()) return base::FailSystem(errno, "reading the kernel's log " + path.string());
  std::string text;
  std::array<char, 16'384> buffer{};  // each read returns one whole record
  while (text.size() < kMax) {
    const auto got = ::read(log.get(), buffer.data(), buffer.size());
    if (got > 0)
      text.append(buffer.data(), static_cast<std::size_t>(got));
    else if (got == 0 || errno == EAGAIN)
      break;
    else if (errno != EPIPE && errno != EINTR)  // EPIPE: records were overwritten meanwhile
      return base::FailSystem(errno, "reading the kernel's log " + path.string());
  }
  return KernelXidsOf(text);
}

}  // namespace gpuman::daemon
