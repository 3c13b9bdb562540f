// How a GPU can be split into instances (MIG), as the driver reports it, and its present instances. Values.
//
// A GPU instance takes slices of the memory, at places that its profile permits, and slices of the
// multiprocessors with them. Compute instances divide the multiprocessors of one GPU instance; programs run
// in them. Words and rules come from NVIDIA (Multi-Instance GPU User Guide).
#pragma once

#include <sys/types.h>

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace gpuman::mig {

struct MigPlacement {
  unsigned start = 0, size = 0;  // slices of memory
  unsigned End() const { return start + size; }
  friend auto operator<=>(const MigPlacement&, const MigPlacement&) = default;
};

struct Engines {
  unsigned decoders = 0, encoders = 0, jpegs = 0, ofas = 0;
  friend auto operator<=>(const Engines&, const Engines&) = default;
};

struct MigProfile {
  std::string name;  // "3g.40gb", "1g.10gb+me"
  unsigned id = 0;   // the driver's id for creating an instance
  unsigned slices = 0;
  unsigned most = 0;  // the largest number of such instances on a device
  unsigned multiprocessors = 0;
  base::Bytes memory;
  Engines engines;
  std::vector<MigPlacement> placements;
  friend bool operator==(const MigProfile&, const MigProfile&) = default;
};

// The profiles of one device. Plans depend on nothing else, so they also work for new kinds of devices.
using Geometry = std::vector<MigProfile>;

struct ComputeInstance {
  unsigned id = 0;
  unsigned slices = 0;
  std::string uuid;  // "MIG-…"; empty: not known
  friend bool operator==(const ComputeInstance&, const ComputeInstance&) = default;
};

struct GpuInstance {
  unsigned id = 0;
  std::size_t profile = 0;  // index into the geometry
  MigPlacement placement;
  std::vector<ComputeInstance> compute;
  friend bool operator==(const GpuInstance&, const GpuInstance&) = default;
};

struct MigProcess {
  pid_t pid = 0;
  std::string name;                    // empty: not known
  std::optional<unsigned> instance{};  // the GPU instance in which it runs
  std::optional<unsigned> compute{};   // the compute instance within it
  friend bool operator==(const MigProcess&, const MigProcess&) = default;
};

struct GpuMigState {
  bool enabled = false;  // MIG mode now; `pending`: MIG mode after the next reset
  bool pending = false;
  Geometry geometry;
  std::vector<GpuInstance> instances;
  std::vector<MigProcess> processes;
  friend bool operator==(const GpuMigState&, const GpuMigState&) = default;
};

}  // namespace gpuman::mig
