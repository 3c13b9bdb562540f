// The steps from the present instances of a device to the wanted ones. Pure.
//
// The plan changes as little as possible: first, it destroys as few instances with running programs as
// possible; then it keeps as many GPU instances as possible where they are; then as many compute instances as
// possible.
#pragma once

#include <sys/types.h>

#include <set>
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
  kEnable,   // MIG mode on
  kCreateGpu,
  kCreateCompute,
};

// "destroy_compute", "destroy_gpu", "disable", "enable", "create_gpu", "create_compute".
std::string_view ToString(StepKind kind);

struct MigStep {
  StepKind kind = StepKind::kEnable;
  // The place of the GPU instance, for all steps except those that change the mode. No two GPU instances have
  // the same place.
  std::size_t profile = 0;  // index into the geometry
  MigPlacement placement{};
  unsigned instance = 0;  // id of a GPU instance that exists already
  unsigned compute = 0;   // id of the compute instance to destroy
  unsigned slices = 0;    // of the compute instance
  friend bool operator==(const MigStep&, const MigStep&) = default;
};

struct Plan {
  std::vector<MigStep> steps;          // in the order to carry them out; empty: nothing has to change
  std::vector<unsigned> kept;          // ids of the GPU instances that stay
  std::vector<MigProcess> in_the_way;  // the plan must not be carried out while these run
  friend bool operator==(const Plan&, const Plan&) = default;
};

// The error says why a device of this kind cannot be split like that.
base::Result<Plan> MakePlan(const GpuMigState& device, const WantedLayout& wanted);

// Whether a reset, a reboot or a reload of the driver undid the wanted state: the mode, or every instance. A
// change by hand does not count as lost. A mode that waits for a reset does not count either: the reset sets
// it.
bool IsLost(const GpuMigState& device, const WantedLayout& wanted);

// "create 3g.71gb at slice 4 of 8", for people.
std::string Describe(const Geometry& geometry, const MigStep& step);

// kConflict that names the processes in the way; call it only if the plan has some.
// `own`: gpuman's own processes.
base::Error InTheWay(const Plan& plan, const std::set<pid_t>& own);

}  // namespace gpuman::mig
