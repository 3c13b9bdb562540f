#include "queue/memory_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gpuman::queue {
namespace {

// Parts of the most that runs have used. What one run used says little of the next; what twenty of them used,
// much.
constexpr double kMinMargin = 0.05;
constexpr double kMarginOfOneRun = 0.45;  // more; of n runs an n-th of it
constexpr double kMarginOfSpread = 0.25;  // of the difference between the least and the most
constexpr double kMaxMargin = 0.5;
// A job that was refused memory would have asked for more after that, and nobody knows how much. It runs
// again only once, so that run should come to its end: too much for one run costs little.
constexpr double kMoreThanNeeded = 1.25, kMoreThanItHad = 2;

// Rounded up to a size that people can read.
base::Bytes Readable(double bytes) {
  const double step = static_cast<double>((bytes < 1 << 30           ? base::MiB(64)
                                           : bytes < 4.0 * (1 << 30) ? base::MiB(128)
                                                                     : base::MiB(256))
                                              .count);
  return {static_cast<std::uint64_t>(std::ceil(bytes / step) * step)};
}

double Times(base::Bytes bytes, double factor) { return static_cast<double>(bytes.count) * factor; }

// The memory that finished runs have used, and the least that the other runs needed.
struct PastNeeds {
  std::size_t runs = 0;
  base::Bytes least{UINT64_MAX}, most{};
  base::Bytes needed{};
};

PastNeeds WhatIsKnown(const std::vector<PastRun>& runs) {
  PastNeeds known;
  for (const PastRun& run : runs) {
    known.needed = std::max(known.needed, run.needed);
    known.most = std::max(known.most, run.peak);
    if (!run.to_its_end) continue;
    ++known.runs;
    known.least = std::min(known.least, run.peak);
  }
  return known;
}

double MarginOf(const PastNeeds& known) {
  const double most = std::max(Times(known.most, 1), 1.0);
  const double spread = Times(known.most - known.least, 1) / most;
  return std::min(kMaxMargin,
                  kMinMargin + kMarginOfOneRun / static_cast<double>(known.runs) + kMarginOfSpread * spread);
}

std::string MostOf(const PastNeeds& known, std::string_view name) {
  if (known.runs == 1)
    return fmt::format("the one known run of '{}' used {}", name, base::FormatBytes(known.most));
  return fmt::format("the most of {} runs of '{}' was {}", known.runs, name, base::FormatBytes(known.most));
}

}  // namespace

MemoryEstimate EstimateMemory(const MemoryQuestion& question) {
  const auto& [name, runs, gpu, at_least] = question;
  const PastNeeds known = WhatIsKnown(runs);
  if (known.runs == 0)
    return {std::nullopt,
            runs.empty()
                ? fmt::format("memory: all of the GPU, as no run of '{}' is known yet", name)
                : fmt::format("memory: all of the GPU, as no known run of '{}' has come to its end", name)};
  std::string why = MostOf(known, name);
  base::Bytes size = Readable(Times(known.most, 1 + MarginOf(known)));
  if (known.needed > known.most) {
    const base::Bytes more = Readable(Times(known.needed, kMoreThanNeeded));
    if (more >= size)
      why = fmt::format("a run of '{}' was refused memory and needed {} at least", name,
                        base::FormatBytes(known.needed));
    size = std::max(size, more);
  }
  if (size < at_least) {
    size = at_least;
    why = "its soft limit says so; " + why;
  }
  if (size >= gpu) return {gpu, fmt::format("memory: all of the GPU, as {}", why)};
  return {size, fmt::format("memory: {}, as {}", base::FormatBytes(size), why)};
}

std::optional<base::Bytes> NextLargerMemory(base::Bytes had, base::Bytes needed, base::Bytes gpu) {
  if (had >= gpu) return std::nullopt;
  const double more = std::max(Times(had, kMoreThanItHad), Times(needed, kMoreThanNeeded));
  return std::min(Readable(more), gpu);
}

}  // namespace gpuman::queue
