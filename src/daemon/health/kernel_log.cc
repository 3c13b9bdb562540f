#include "daemon/health/kernel_log.h"

#include "base/kernel_log.h"
#include "base/text.h"

namespace gpuman::daemon {
namespace {

constexpr std::size_t kMax = 64U << 20U;  // no kernel keeps more

}  // namespace

std::vector<KernelXid> KernelXidsOf(std::string_view text) {
  std::vector<KernelXid> xids;
  while (!text.empty()) {
    const auto line = base::ParseKernelLogLine(base::TakeUntil(text, '\n'));
    auto logged = line ? health::ParseXidLine(line->message) : std::nullopt;
    if (logged) xids.push_back({std::move(*logged), line->since_boot});
  }
  return xids;
}

base::Result<std::vector<KernelXid>> ReadKernelXids(const std::filesystem::path& path) {
  auto log = base::KernelLog::Open(path);
  if (!log) return base::Fail(std::move(log.error()));
  const auto text = log->ReadMore(kMax);
  if (!text) return base::Fail(text.error());
  return KernelXidsOf(*text);
}

}  // namespace gpuman::daemon
