#include "queue/placement.h"

#include <algorithm>
#include <tuple>

#include "base/hash.h"

namespace gpuman::queue {
namespace {

int LinkOf(const Snapshot& snapshot, std::size_t a, std::size_t b) {
  return static_cast<int>(snapshot.links[a * snapshot.gpus.size() + b]);
}

int LinksTo(const Snapshot& snapshot, std::size_t gpu, const std::vector<std::size_t>& others) {
  int sum = 0;
  for (const std::size_t other : others)
    if (other != gpu) sum += LinkOf(snapshot, gpu, other);
  return sum;
}

// Starts with `first` and adds the best-linked next GPU until there are `count` GPUs. Returns the sum of
// their links, and the GPUs.
std::pair<int, std::vector<std::size_t>> Grow(const Snapshot& snapshot, const std::vector<std::size_t>& gpus,
                                              std::size_t first, std::size_t count) {
  std::vector<std::size_t> chosen{first};
  int sum = 0;
  while (chosen.size() < count) {
    int best = -1;
    std::size_t next = first;
    for (const std::size_t gpu : gpus) {
      if (std::find(chosen.begin(), chosen.end(), gpu) != chosen.end()) continue;
      const int links = LinksTo(snapshot, gpu, chosen);
      if (links > best) std::tie(best, next) = std::pair(links, gpu);
    }
    sum += best;
    chosen.push_back(next);
  }
  return {sum, chosen};
}

GpuSet SetOf(const std::vector<std::size_t>& gpus) {
  GpuSet set;
  for (const std::size_t gpu : gpus) set.set(gpu);
  return set;
}

GpuSet ChooseLinked(const Snapshot& snapshot, const std::vector<CandidateGpu>& candidates,
                    std::size_t count) {
  std::vector<std::size_t> gpus;
  gpus.reserve(candidates.size());
  for (const CandidateGpu& each : candidates) gpus.push_back(each.gpu);
  if (count == 1) {
    const auto worse = [&](std::size_t a, std::size_t b) {
      return LinksTo(snapshot, a, gpus) < LinksTo(snapshot, b, gpus);
    };
    return SetOf({*std::min_element(gpus.begin(), gpus.end(), worse)});
  }
  std::pair<int, std::vector<std::size_t>> best{-1, {}};
  for (const std::size_t first : gpus)
    if (auto grown = Grow(snapshot, gpus, first, count); grown.first > best.first) best = std::move(grown);
  return SetOf(best.second);
}

}  // namespace

GpuSet Choose(const Snapshot& snapshot, std::vector<CandidateGpu> candidates, std::size_t count, bool share,
              JobId job) {
  const GpuPickPolicy choice = snapshot.settings.choice;
  const auto order = [&](const CandidateGpu& each) -> std::uint64_t {
    if (choice != GpuPickPolicy::kRandom) return snapshot.gpus[each.gpu].index;
    return base::SplitMix64(snapshot.settings.seed ^
                            base::SplitMix64(static_cast<std::uint64_t>(job.value) * kMaxGpus + each.gpu));
  };
  const auto key = [&](const CandidateGpu& each) {
    const base::Bytes left = share ? each.free : base::Bytes{};
    return std::tuple(share && !each.shared, left, each.until, order(each), each.gpu);
  };
  std::sort(candidates.begin(), candidates.end(),
            [&](const CandidateGpu& a, const CandidateGpu& b) { return key(a) < key(b); });
  const bool linked = choice == GpuPickPolicy::kTopology && !share && count > 0 && !snapshot.links.empty();
  if (linked && candidates.size() > count) return ChooseLinked(snapshot, candidates, count);
  GpuSet set;
  for (std::size_t i = 0; i < count; ++i) set.set(candidates[i].gpu);
  return set;
}

}  // namespace gpuman::queue
