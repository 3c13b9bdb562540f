// The steps from what a device is split into to what it is to be split into. Pure.
//
// Changes the least: no instance that a program runs in goes if that can be helped, then as many GPU
// instances as possible stay where they are, then as many compute instances.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "mig/device.h"
#include "mig/layout.h"

namespace gpuman::mig {

enum class StepKind {
  kDestroyCompute,
  kDestroyGpu,
  kDisable,  // MIG mode off
  kEnable,   // and on
  kCreateGpu,
  kCreateCompute,
};

// "destroy_compute", "destroy_gpu", "disable", "enable", "create_gpu", "create_compute".
std::string_view ToString(StepKind kind);

struct Step {
  StepKind kind = StepKind::kEnable;
  // Of all but the two about the mode: where the GPU instance is. No two have the same placement.
  std::size_t profile = 0;  // index into the geometry
  Placement placement{};
  unsigned instance = 0;  // id of a GPU instance that is there already
  unsigned compute = 0;   // id of the compute instance to be destroyed
  unsigned slices = 0;    // of the compute instance
  friend bool operator==(const Step&, const Step&) = default;
};

struct Plan {
  std::vector<Step> steps;          // in the order in which they are to be done; empty: it is so already
  std::vector<unsigned> kept;       // ids of the GPU instances that stay
  std::vector<Process> in_the_way;  // as long as these run nothing may be done
  friend bool operator==(const Plan&, const Plan&) = default;
};

// An error says why no device of this kind can be that.
base::Result<Plan> MakePlan(const Device& device, const Wanted& wanted);

// Whether a reset, a reboot or a reload of the driver took what was wanted: the mode, or every instance. What
// somebody changed by hand is not lost, and a mode that waits for a reset comes by itself.
bool IsLost(const Device& device, const Wanted& wanted);

// "create 3g.71gb at slice 4 of 8", for people.
std::string Describe(const Geometry& geometry, const Step& step);

// kConflict that names the processes; only where there are some.
base::Error InTheWay(const Plan& plan);

}  // namespace gpuman::mig
