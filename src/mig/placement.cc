#include "mig/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace gpuman::mig {
namespace {

using base::ErrorCode;

Engines Sum(const Engines& a, const Engines& b) {
  return {a.decoders + b.decoders, a.encoders + b.encoders, a.jpegs + b.jpegs, a.ofas + b.ofas};
}

bool Within(const Engines& used, const Engines& all) {
  return used.decoders <= all.decoders && used.encoders <= all.encoders && used.jpegs <= all.jpegs &&
         used.ofas <= all.ofas;
}

const MigProfile* Biggest(const Geometry& geometry) {
  const auto it = std::max_element(geometry.begin(), geometry.end(),
                                   [](const auto& a, const auto& b) { return a.slices < b.slices; });
  return it == geometry.end() ? nullptr : &*it;
}

unsigned MemorySlices(const Geometry& geometry) {
  unsigned slices = 0;
  for (const auto& profile : geometry)
    for (const auto& placement : profile.placements) slices = std::max(slices, placement.End());
  return slices;
}

bool Overlap(const MigPlacement& a, const MigPlacement& b) { return a.start < b.End() && b.start < a.End(); }

unsigned SizeOf(const MigProfile& profile) {
  return profile.placements.empty() ? 0 : profile.placements.front().size;
}

class Search {
 public:
  Search(const Geometry& geometry, std::span<const PlacedInstance> taken,
         std::span<const std::size_t> profiles)
      : geometry_(geometry),
        profiles_(profiles),
        placed_(taken.begin(), taken.end()),
        order_(profiles.size()) {
    if (const auto* biggest = Biggest(geometry)) all_ = biggest->engines;
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    // Big instances have the fewest places, so they come first. Equal ones are adjacent, so that each set of
    // their places is tried once.
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      const auto size = [&](std::size_t i) { return SizeOf(geometry_[profiles_[i]]); };
      return std::pair(size(b), profiles_[a]) < std::pair(size(a), profiles_[b]);
    });
  }

  std::optional<std::vector<PlacedInstance>> Run() {
    if (!WithinCounts()) return std::nullopt;
    const std::size_t first = placed_.size();
    if (!Next(0)) return std::nullopt;
    std::vector<PlacedInstance> found(profiles_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) found[order_[i]] = placed_[first + i];
    return found;
  }

 private:
  bool WithinCounts() const {
    std::map<std::size_t, unsigned> counts;
    Engines used;
    const auto add = [&](std::size_t profile) {
      used = Sum(used, geometry_[profile].engines);
      return ++counts[profile] <= geometry_[profile].most;
    };
    for (const auto& placed : placed_)
      if (!add(placed.profile)) return false;
    for (const auto profile : profiles_)
      if (!add(profile)) return false;
    return Within(used, all_);
  }

  bool Next(std::size_t index) {
    if (index == order_.size()) return true;
    const std::size_t profile = profiles_[order_[index]];
    const bool is_same = index > 0 && profiles_[order_[index - 1]] == profile;
    const unsigned after = is_same ? placed_.back().placement.start : 0;
    for (const auto& placement : geometry_[profile].placements) {
      if (is_same && placement.start <= after) continue;
      if (std::any_of(placed_.begin(), placed_.end(),
                      [&](const PlacedInstance& placed) { return Overlap(placed.placement, placement); }))
        continue;
      placed_.push_back({profile, placement});
      if (Next(index + 1)) return true;
      placed_.pop_back();
    }
    return false;
  }

  const Geometry& geometry_;
  std::span<const std::size_t> profiles_;
  Engines all_;
  std::vector<PlacedInstance> placed_;
  std::vector<std::size_t> order_;  // indices of profiles_, in the order in which they are tried
};

std::string EnginesOver(const Geometry& geometry, std::span<const std::size_t> profiles) {
  Engines used;
  for (const auto profile : profiles) used = Sum(used, geometry[profile].engines);
  const Engines all = Biggest(geometry)->engines;
  const auto over = [](const char* what, unsigned need, unsigned have) {
    return need > have ? fmt::format("they need {} {} and the GPU has {}", need, what, have) : std::string();
  };
  for (const auto& text :
       {over("OFA engines", used.ofas, all.ofas), over("JPEG engines", used.jpegs, all.jpegs),
        over("decoders", used.decoders, all.decoders), over("encoders", used.encoders, all.encoders)})
    if (!text.empty()) return text;
  return "";
}

}  // namespace

std::optional<std::vector<PlacedInstance>> FindPlacements(const Geometry& geometry,
                                                          std::span<const PlacedInstance> taken,
                                                          std::span<const std::size_t> profiles) {
  return Search(geometry, taken, profiles).Run();
}

base::Error WhyNot(const Geometry& geometry, std::span<const std::size_t> profiles) {
  std::map<std::size_t, unsigned> counts;
  unsigned slices = 0;
  for (const auto profile : profiles) {
    ++counts[profile];
    slices += SizeOf(geometry[profile]);
  }
  constexpr const char* kHint = "gpuman mig profiles shows how many of each a GPU takes, and where";
  for (const auto& [profile, count] : counts) {
    const auto& each = geometry[profile];
    if (count > each.most)
      return {ErrorCode::kUnsatisfiable,
              fmt::format("{} of {} are too many: a GPU takes {}", count, each.name, each.most), kHint};
  }
  if (const unsigned all = MemorySlices(geometry); slices > all)
    return {ErrorCode::kUnsatisfiable,
            fmt::format("the instances need {} slices of memory, and the GPU has {}", slices, all), kHint};
  if (auto engines = EnginesOver(geometry, profiles); !engines.empty())
    return {ErrorCode::kUnsatisfiable, "the instances do not go together: " + engines, kHint};
  return {ErrorCode::kUnsatisfiable,
          "the instances do not fit beside each other, wherever each of them is put", kHint};
}

}  // namespace gpuman::mig
