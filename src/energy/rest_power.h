// What a GPU draws while nothing runs on it, learnt from times when nobody had it. Pure.
//
// A GPU that was used a moment ago is warm, and its clocks are high for some seconds, so the figure follows
// lower readings soon and higher ones slowly.
#pragma once

#include <optional>

#include "energy/split.h"

namespace gpuman::energy {

class RestPower {
 public:
  RestPower() = default;
  explicit RestPower(std::optional<double> watts) : watts_(watts) {}

  // The GPU had no process during all of this time. Short times are added up.
  void Learn(Millijoules used, Time time);
  // nullopt: not known yet.
  std::optional<double> watts() const { return watts_; }

 private:
  std::optional<double> watts_;
  double joules_ = 0, seconds_ = 0;  // seen since watts_ was set
};

}  // namespace gpuman::energy
