// The keys of [mps].
#pragma once

#include <string>

#include "base/units.h"

namespace gpuman::daemon {

// Of nvidia-cuda-mps-control: kAuto asks the program which ones it speaks, and takes the newest.
enum class MpsProtocolSetting { kAuto, k2, k3 };

struct MpsSettings {
  std::string control;  // nvidia-cuda-mps-control; empty: found in PATH
  MpsProtocolSetting protocol = MpsProtocolSetting::kAuto;
  bool auto_start = false;   // start a control daemon for a job that asks for MPS, if none runs
  bool restart = false;      // restart a control daemon that died
  base::Millis look{5'000};  // between two looks at clients and servers
};

}  // namespace gpuman::daemon
