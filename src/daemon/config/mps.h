// The keys of [mps].
#pragma once

#include <string>

#include "base/units.h"

namespace gpuman::daemon {

struct MpsSettings {
  std::string control;       // nvidia-cuda-mps-control; empty: found in PATH
  bool auto_start = false;   // for a job that asks for it, where none runs
  bool restart = false;      // of a control daemon that died
  base::Millis look{5'000};  // at clients and servers
};

}  // namespace gpuman::daemon
