// Where instances can lie beside each other on a device. Pure.
//
// The search is complete: when it finds nothing there is nothing. Devices have eight slices or so; the
// longest search over the geometries of today takes microseconds.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "mig/device.h"

namespace gpuman::mig {

struct PlacedInstance {
  std::size_t profile = 0;  // index into the geometry
  Placement placement;
  friend auto operator<=>(const PlacedInstance&, const PlacedInstance&) = default;
};

// Placements for one instance of each of `profiles` (indices, repeated for several), beside `taken`; in the
// order of `profiles`. nullopt: there are none. Held to: no slice twice, no more of a profile than it says,
// no more engines than the device has, which is as many as its biggest profile.
std::optional<std::vector<PlacedInstance>> FindPlacements(const Geometry& geometry,
                                                          std::span<const PlacedInstance> taken,
                                                          std::span<const std::size_t> profiles);

// Why a device without instances does not take these, as a sentence with the figures; for what FindPlacements
// refuses.
base::Error WhyNot(const Geometry& geometry, std::span<const std::size_t> profiles);

}  // namespace gpuman::mig
