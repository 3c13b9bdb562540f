// For tests: the geometries of the simulated driver, as the driver reports them.
#pragma once

#include "mig/device.h"
#include "sim/profiles/mig_tables.h"

namespace gpuman::mig {

inline Geometry GeometryOf(sim::MigKind kind) {
  Geometry geometry;
  for (const auto& row : sim::MigProfiles(kind)) {
    MigProfile profile{row.name, row.id, row.slices, row.most, row.multiprocessors, base::MiB(row.memory_mib),
                       {},       {}};
    profile.engines = {row.decoders, 0, row.jpegs, row.ofas};
    for (unsigned start = 0; start < 32; ++start)
      if ((row.starts >> start & 1) != 0) profile.placements.push_back({start, row.size});
    geometry.push_back(std::move(profile));
  }
  return geometry;
}

}  // namespace gpuman::mig
