#include "suspend/would_stay.h"

#include <algorithm>

namespace gpuman::suspend {

BytesByGpu WouldStay(const std::vector<ObservedProcess>& processes, std::optional<bool> checkpoints) {
  const bool shares = std::any_of(processes.begin(), processes.end(), [](const ObservedProcess& process) {
    return process.has_shim && process.shares;
  });
  BytesByGpu left;
  for (const ObservedProcess& process : processes) {
    if (checkpoints != false && !(shares && process.has_shim)) continue;
    for (const auto& [gpu, share] : process.gpus) {
      // A figure of the driver may be older than the shim's count; a process that has memory has a context.
      const base::Bytes bytes = std::max(share.used - share.evictable, share.context);
      if (bytes.count > 0) left[gpu] += bytes;
    }
  }
  return left;
}

BytesByGpu SteadyResidualEstimator::Add(const BytesByGpu& seen, base::MonoTime now) {
  std::erase_if(parts_, [&](const auto& part) { return !seen.contains(part.first); });
  BytesByGpu counts;
  for (const auto& [gpu, bytes] : seen) {
    const auto [at, fresh] = parts_.try_emplace(gpu, Part{bytes, {}, {}});
    Part& part = at->second;
    if (fresh || bytes <= part.counts) {
      part = {bytes, {}, {}};
    } else {
      part.least = part.grew ? std::min(part.least, bytes) : bytes;
      if (!part.grew) part.grew = now;
      if (now - *part.grew >= kLasts) part = {part.least, {}, {}};
    }
    counts[gpu] = part.counts;
  }
  return counts;
}

}  // namespace gpuman::suspend
