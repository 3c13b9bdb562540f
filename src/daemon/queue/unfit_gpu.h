// GPUs on which the queue starts nothing, and the note for a user who starts a job there all the same. Pure.
#pragma once

#include <optional>
#include <string>

namespace gpuman::daemon {

struct UnfitGpu {
  std::string number;                       // "0", "0:1"
  std::optional<std::string> drained_by{};  // the user; empty: not known; absent: it is not drained
  std::optional<std::string> fault{};       // what makes it unhealthy; absent: it is not unhealthy
};

// How a job came to its GPUs.
enum class GpuSelectionReason { kNamed, kNoneNamed, kOnlyOneWithMps };

// "GPU 0 is drained (by ada) and unhealthy (…); the job uses it all the same, as it was named".
std::string NoteOn(const UnfitGpu& gpu, GpuSelectionReason choice);

}  // namespace gpuman::daemon
