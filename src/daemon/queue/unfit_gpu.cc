#include "daemon/queue/unfit_gpu.h"

#include <fmt/format.h>

namespace gpuman::daemon {
namespace {

std::string StateOf(const UnfitGpu& gpu) {
  std::string text;
  if (gpu.drained_by) text = "drained";
  if (gpu.drained_by && !gpu.drained_by->empty()) text += fmt::format(" (by {})", *gpu.drained_by);
  if (gpu.fault) text += fmt::format("{}unhealthy ({})", text.empty() ? "" : " and ", *gpu.fault);
  return text;
}

const char* Why(GpuSelectionReason choice) {
  switch (choice) {
    case GpuSelectionReason::kNamed:
      return "the job uses it all the same, as it was named";
    case GpuSelectionReason::kNoneNamed:
      return "the job may use it all the same, as it names no GPU: --gpu names those that it may use";
    case GpuSelectionReason::kOnlyOneWithMps:
      return "the job uses it all the same, as MPS runs on no other GPU that is fit";
  }
  return "";
}

}  // namespace

std::string NoteOn(const UnfitGpu& gpu, GpuSelectionReason choice) {
  return fmt::format("GPU {} is {}; {}", gpu.number, StateOf(gpu), Why(choice));
}

}  // namespace gpuman::daemon
