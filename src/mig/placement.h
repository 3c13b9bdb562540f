// Finds places for instances beside each other on a device. Pure.
//
// The search is complete: if it finds nothing, there is no placement. Devices have about eight slices; the
// longest search over today's geometries takes microseconds.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "mig/device.h"

namespace gpuman::mig {

struct PlacedInstance {
  std::size_t profile = 0;  // index into the geometry
  MigPlacement placement;
  friend auto operator<=>(const PlacedInstance&, const PlacedInstance&) = default;
};

// Placements for one instance of each of `profiles`, beside `taken`, in the order of `profiles`. `profiles`
// has indices into the geometry; an index occurs once for each wanted instance. nullopt: there are no such
// placements. Rules: no slice is used twice; a profile has at most MigProfile::most instances; all instances
// together have at most the engines of the device, which are those of its biggest profile.
std::optional<std::vector<PlacedInstance>> FindPlacements(const Geometry& geometry,
                                                          std::span<const PlacedInstance> taken,
                                                          std::span<const std::size_t> profiles);

// Why a device without instances has no room for these profiles, as a sentence with the figures. Call it only
// for profiles that FindPlacements refuses.
base::Error WhyNot(const Geometry& geometry, std::span<const std::size_t> profiles);

}  // namespace gpuman::mig
