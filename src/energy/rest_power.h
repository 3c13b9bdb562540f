// What a GPU draws while nothing runs on it, learnt from times when nobody had it. Pure.
//
// For some seconds after its last process a GPU keeps its high clocks and draws half as much again (an H200
// 132 W for 2.1 s, then 82 W). So a figure from those seconds counts only as long as there is no other one.
// What is seen later is averaged; a figure that is much lower counts soon, since clocks of other GPUs stay
// high for longer, and one that is much higher slowly.
#pragma once

#include <optional>

#include "energy/split.h"

namespace gpuman::energy {

class RestPower {
 public:
  RestPower() = default;
  // `watts`: as learnt earlier, by an earlier daemon.
  explicit RestPower(std::optional<double> watts) : watts_(watts) {}

  // No process used the GPU during `time`, which began `after_last_process` after the last process. The
  // estimator adds short times up.
  void Learn(Millijoules used, Time time, Time after_last_process);
  // nullopt: not known yet.
  std::optional<double> watts() const { return watts_; }

 private:
  struct MeasuredEnergy {
    double joules = 0, seconds = 0;
  };
  void Learn(double watts, double seconds, bool settled);

  std::optional<double> watts_;
  // Whether this object measured watts_ after the GPU had come to rest.
  bool settled_ = false;
  // What was added up since watts_ was set, before and after it had come to rest.
  MeasuredEnergy before_, after_;
};

}  // namespace gpuman::energy
