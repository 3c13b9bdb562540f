// Measures how well parts of GPUs are packed: pods of mixed sizes arrive and end on a model of a cluster,
// with the plugin's rule and with first fit. Prints one line of JSON for each rule and each way in which the
// scheduler chooses a node.
//
// The scheduler sees what Kubernetes' scheduler sees: how many devices a node has free, not on which GPUs. A
// pod is refused if its node has enough devices but no GPU has: it would straddle. Each seed gives both rules
// the same arrivals.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <queue>
#include <random>
#include <vector>

#include "plugins/kubernetes/packing.h"

namespace {

constexpr unsigned kNodes = 100, kGpus = 8, kGib = 139;  // memory of an H200, in whole GiB
constexpr unsigned kArrivals = 10'000, kSeeds = 10;
constexpr double kLoad = 0.9;  // of the cluster's memory, if no pod were refused
constexpr std::array<unsigned, 9> kSizes = {2, 4, 8, 12, 16, 24, 40, 48, 80};
constexpr std::array<double, 9> kWeights = {15, 15, 20, 10, 15, 10, 8, 4, 3};

struct Node {
  std::vector<unsigned> free = std::vector<unsigned>(kGpus, kGib);
  unsigned total = kGpus * kGib;
};

enum class Rule { kBestFit, kFirstFit };
enum class Scheduler { kMinAllocated, kMaxAllocated };

std::optional<std::size_t> ChooseGpu(Rule rule, const std::vector<unsigned>& free, unsigned size) {
  if (rule == Rule::kBestFit) return gpuman::kubernetes::BestFit(free, size);
  const auto first = std::find_if(free.begin(), free.end(), [&](unsigned room) { return room >= size; });
  return first == free.end() ? std::nullopt : std::optional<std::size_t>(first - free.begin());
}

Node* ChooseNode(Scheduler scheduler, std::vector<Node>& nodes, unsigned size) {
  Node* best = nullptr;
  for (auto& node : nodes) {
    if (node.total < size) continue;
    const bool better = scheduler == Scheduler::kMinAllocated ? !best || node.total > best->total
                                                              : !best || node.total < best->total;
    if (better) best = &node;
  }
  return best;
}

struct Pod {
  double end = 0;
  unsigned node = 0, gpu = 0, size = 0;
  bool operator>(const Pod& other) const { return end > other.end; }
};

struct Figures {
  unsigned refused = 0, full = 0;
  double stranded = 0;  // sum over arrivals of the share of memory in free pieces too small for the pod
};

Figures Simulate(Rule rule, Scheduler scheduler, unsigned seed) {
  std::mt19937_64 random(seed);
  std::discrete_distribution<std::size_t> sizes(kWeights.begin(), kWeights.end());
  double mean = 0, weights = 0;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    mean += kSizes[i] * kWeights[i];
    weights += kWeights[i];
  }
  // Pods stay for 1 on average, so the arrival rate sets the load.
  std::exponential_distribution<double> gap(kLoad * kNodes * kGpus * kGib / (mean / weights)), stay(1);
  std::vector<Node> nodes(kNodes);
  std::priority_queue<Pod, std::vector<Pod>, std::greater<>> running;
  Figures figures;
  double now = 0;
  const unsigned begin = kArrivals / 2;  // counting begins when the cluster has filled
  for (unsigned i = 0; i < begin + kArrivals; ++i) {
    now += gap(random);
    const unsigned size = kSizes[sizes(random)];
    const double end = now + stay(random);
    for (; !running.empty() && running.top().end <= now; running.pop()) {
      const Pod& pod = running.top();
      nodes[pod.node].free[pod.gpu] += pod.size;
      nodes[pod.node].total += pod.size;
    }
    const bool counts = i >= begin;
    if (counts) {
      unsigned small = 0;
      for (const auto& node : nodes)
        for (const unsigned room : node.free) small += room < size ? room : 0;
      figures.stranded += static_cast<double>(small) / (kNodes * kGpus * kGib);
    }
    Node* node = ChooseNode(scheduler, nodes, size);
    if (!node) {
      figures.full += counts ? 1 : 0;
      continue;
    }
    const auto gpu = ChooseGpu(rule, node->free, size);
    if (!gpu) {
      figures.refused += counts ? 1 : 0;
      continue;
    }
    node->free[*gpu] -= size;
    node->total -= size;
    running.push({end, static_cast<unsigned>(node - nodes.data()), static_cast<unsigned>(*gpu), size});
  }
  return figures;
}

}  // namespace

int main() {
  for (const auto scheduler : {Scheduler::kMinAllocated, Scheduler::kMaxAllocated}) {
    for (const auto rule : {Rule::kBestFit, Rule::kFirstFit}) {
      Figures sum;
      for (unsigned seed = 1; seed <= kSeeds; ++seed) {
        const auto figures = Simulate(rule, scheduler, seed);
        sum.refused += figures.refused;
        sum.full += figures.full;
        sum.stranded += figures.stranded;
      }
      constexpr double kAll = static_cast<double>(kArrivals) * kSeeds;
      std::printf(
          "{\"scheduler\":\"%s\",\"rule\":\"%s\",\"arrivals\":%u,\"runs\":%u,\"refused\":%.5f,\"full\":%.5f,"
          "\"stranded\":%.5f}\n",
          scheduler == Scheduler::kMinAllocated ? "least allocated" : "most allocated",
          rule == Rule::kBestFit ? "gpuman" : "first fit", kArrivals, kSeeds, sum.refused / kAll,
          sum.full / kAll, sum.stranded / kAll);
    }
  }
  return 0;
}
