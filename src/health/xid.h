// A table of the driver's error numbers (Xid): what each means for the GPU and for the program that caused
// it.
//
// Sources of the classes: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), and the way DCGM and
// gpud treat Xids. Pure; thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "health/verdict.h"

namespace gpuman::health {

struct XidCatalogEntry {
  unsigned xid = 0;
  std::string_view name;  // "GPU has fallen off the bus"
  // The GPU's state from then on; kHealthy: the Xid is only reported.
  HealthState state = HealthState::kHealthy;
  RepairAction action = RepairAction::kNone;
};

// All known numbers, ascending.
std::span<const XidCatalogEntry> XidClasses();

// An unknown number is reported and changes nothing: newer drivers have new numbers.
XidCatalogEntry ClassOf(unsigned xid);

}  // namespace gpuman::health
