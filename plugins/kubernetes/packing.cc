#include "plugins/kubernetes/packing.h"

#include <algorithm>
#include <map>
#include <set>

namespace gpuman::kubernetes {
namespace {

// The available devices of one unit.
struct Offer {
  const PoolGpu* unit = nullptr;
  std::vector<std::string> ids;
};

std::vector<Offer> OffersOf(const ResourcePool& pool, std::span<const std::string> available,
                            const std::set<std::string>& taken) {
  std::map<const PoolGpu*, std::vector<std::string>> by_unit;
  for (const auto& id : available) {
    if (taken.contains(id)) continue;
    if (const PoolGpu* unit = FindUnit(pool, id)) by_unit[unit].push_back(id);
  }
  std::vector<Offer> offers;
  for (const auto& unit : pool.units)  // in the pool's order, not by address
    if (auto found = by_unit.find(&unit); found != by_unit.end())
      offers.push_back({&unit, std::move(found->second)});
  return offers;
}

void Take(std::vector<std::string>& chosen, std::span<const std::string> ids, std::size_t size) {
  for (const auto& id : ids) {
    if (chosen.size() >= size) return;
    chosen.push_back(id);
  }
}

void TakeParts(const ResourcePool& pool, std::vector<Offer>& offers, std::vector<std::string>& chosen,
               std::size_t size) {
  const PoolGpu* bound = chosen.empty() ? nullptr : FindUnit(pool, chosen.front());
  std::vector<unsigned> free;
  free.reserve(offers.size());
  for (const auto& offer : offers)
    free.push_back(bound && offer.unit != bound ? 0 : static_cast<unsigned>(offer.ids.size()));
  if (const auto best = BestFit(free, static_cast<unsigned>(size - chosen.size()))) {
    // The order is by the numbers of the ids, not kubelet's order: the same question gets the same answer.
    auto& ids = offers[*best].ids;
    std::sort(ids.begin(), ids.end(), [](const auto& a, const auto& b) {
      return std::pair(a.size(), std::string_view(a)) < std::pair(b.size(), std::string_view(b));
    });
    Take(chosen, ids, size);
  }
}

// Takes a turn on the shared GPU with the most free turns, so that few containers share it.
void TakeTurn(std::vector<Offer>& offers, std::vector<std::string>& chosen, std::size_t size) {
  std::stable_sort(offers.begin(), offers.end(),
                   [](const Offer& a, const Offer& b) { return a.ids.size() > b.ids.size(); });
  for (const auto& offer : offers) Take(chosen, std::span(offer.ids).first(1), size);
}

// Takes GPUs from the NUMA node that has the fewest free GPUs but enough of them; else from the nodes with
// the most, so that few nodes are used.
void TakeWhole(std::vector<Offer>& offers, std::vector<std::string>& chosen, std::size_t size) {
  std::map<int, std::size_t> on_node;
  const auto node_of = [](const Offer& offer) { return offer.unit->memory_node.value_or(-1); };
  for (const auto& offer : offers) on_node[node_of(offer)] += offer.ids.size();
  const std::size_t missing = size - chosen.size();
  std::stable_sort(offers.begin(), offers.end(), [&](const Offer& a, const Offer& b) {
    const auto rank = [&](const Offer& offer) {
      const std::size_t count = on_node.at(node_of(offer));
      return count >= missing ? std::tuple(0, count, node_of(offer))
                              : std::tuple(1, SIZE_MAX - count, node_of(offer));
    };
    return rank(a) < rank(b);
  });
  for (const auto& offer : offers) Take(chosen, offer.ids, size);
}

}  // namespace

std::optional<std::size_t> BestFit(std::span<const unsigned> free, unsigned size) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < free.size(); ++i)
    if (free[i] >= size && (!best || free[i] < free[*best])) best = i;
  return best;
}

std::vector<std::string> Prefer(const ResourcePool& pool, std::span<const std::string> available,
                                std::span<const std::string> must_include, std::size_t size) {
  std::vector<std::string> chosen(must_include.begin(), must_include.end());
  if (chosen.size() >= size) return chosen;
  auto offers = OffersOf(pool, available, {chosen.begin(), chosen.end()});
  switch (pool.resource.kind) {
    case ResourceKind::kMemory:
    case ResourceKind::kSlice:
      TakeParts(pool, offers, chosen, size);
      break;
    case ResourceKind::kShared:
      TakeTurn(offers, chosen, size);
      break;
    case ResourceKind::kWhole:
    case ResourceKind::kMig:
      TakeWhole(offers, chosen, size);
      break;
  }
  return chosen;
}

}  // namespace gpuman::kubernetes
