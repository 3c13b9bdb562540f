// Decides when to ask the driver for a GPU's processes. The driver walks all its clients for each of the two
// lists, 1.5 ms with 64 of them on an H200; the memory in use costs 5 to 70 us. Pure; one thread.
#pragma once

#include <optional>

#include "base/clock.h"

namespace gpuman::gpu {

class ProcessListSchedule {
 public:
  // Call it after each read of the device's memory. `memory_changed`: it differs from the last read.
  // `wanted`: the caller wants the processes anyway.
  void Observe(base::MonoTime now, bool memory_changed, bool wanted);

  bool compute_due() const { return compute_due_; }
  // Display servers and the like: they start and end rarely, and most machines have none.
  bool graphics_due() const { return graphics_due_; }

  void TookCompute(base::MonoTime now) { compute_at_ = now; }
  void TookGraphics(base::MonoTime now, bool found_some);

  // Call it after the driver was loaded again.
  void Forget() { *this = {}; }

 private:
  int rounds_after_change_ = 0;  // rounds that still list compute processes
  bool changed_since_graphics_ = true;
  bool has_graphics_ = false;
  std::optional<base::MonoTime> compute_at_, graphics_at_;
  bool compute_due_ = true, graphics_due_ = true;
};

}  // namespace gpuman::gpu
