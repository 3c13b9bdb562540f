// What the driver's error numbers (Xid) mean for the GPU and for the program that met one: a table.
//
// Source of the classes: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), and what DCGM and gpud
// do with them. Pure; thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "health/verdict.h"

namespace gpuman::health {

struct XidClass {
  unsigned xid = 0;
  std::string_view name;          // "GPU has fallen off the bus"
  State state = State::kHealthy;  // what the GPU is from then on; kHealthy: it is told of, and that is all
  Action action = Action::kNone;
};

// Every number that is known, ascending.
std::span<const XidClass> XidClasses();

// One that is not known is told of and changes nothing: drivers learn new ones.
XidClass ClassOf(unsigned xid);

}  // namespace gpuman::health
