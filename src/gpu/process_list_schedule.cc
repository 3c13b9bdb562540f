#include "gpu/process_list_schedule.h"

#include "base/units.h"

namespace gpuman::gpu {
namespace {

using base::Millis;

// The list of processes may follow the device's memory with a delay.
constexpr int kRoundsAfterChange = 3;
// A process may take exactly the memory that another one gave back.
constexpr Millis kComputeAnyway{2'000};
constexpr Millis kGraphicsAnyway{10'000};
constexpr Millis kGraphicsAfterChange{1'000};

bool Passed(const std::optional<base::MonoTime>& since, base::MonoTime now, Millis time) {
  return !since || now - *since >= time;
}

}  // namespace

void ProcessListSchedule::Observe(base::MonoTime now, bool memory_changed, bool wanted) {
  if (memory_changed) {
    rounds_after_change_ = kRoundsAfterChange + 1;  // this one too
    changed_since_graphics_ = true;
  }
  const bool follows_change = rounds_after_change_ > 0;
  if (follows_change) --rounds_after_change_;
  compute_due_ = wanted || follows_change || Passed(compute_at_, now, kComputeAnyway);
  graphics_due_ =
      compute_due_ && (has_graphics_ || Passed(graphics_at_, now, kGraphicsAnyway) ||
                       (changed_since_graphics_ && Passed(graphics_at_, now, kGraphicsAfterChange)));
}

void ProcessListSchedule::TookGraphics(base::MonoTime now, bool found_some) {
  graphics_at_ = now;
  has_graphics_ = found_some;
  changed_since_graphics_ = false;
}

}  // namespace gpuman::gpu
