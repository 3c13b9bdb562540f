// Carries out a plan through NVML, checks each step, and undoes the steps when one fails.
//
// Calls of the driver may hang, so the daemon calls these functions in a worker thread.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "device/plan.h"
#include "driver/nvml.h"

namespace gpuman::device {

// The hint of an error for a GPU that programs use.
inline constexpr const char* kInUseHint = "programs are using the GPU: gpuman proclist shows them";

struct GpuSteps {
  std::string uuid;
  std::vector<DevicePlanStep> steps;
};

struct ApplyFailure {
  std::string uuid;
  std::optional<Setting> setting;  // nullopt: the GPU as a whole
  base::Error error;
};

struct ApplyOutcome {
  std::vector<ApplyFailure> failures;    // the first one ends the work, unless OnFailure::kGoOn
  std::vector<GpuSteps> undone;          // steps that were undone after the failure
  std::vector<ApplyFailure> not_undone;  // steps that could not be undone
  bool Succeeded() const { return failures.empty(); }
};

enum class OnFailure { kUndo, kGoOn };

// Callers that wait may read and set this while Apply works. Thread-safe.
struct ApplyProgress {
  std::atomic<bool> abandoned{false};  // no caller waits any more: Apply undoes the work before the next step
  std::atomic<std::size_t> gpu{0};     // index into the work
};

ApplyOutcome Apply(const driver::Nvml& nvml, const std::vector<GpuSteps>& work, OnFailure on_failure,
                   ApplyProgress& progress);

base::Result<> ClearEccErrors(const driver::Nvml& nvml, const std::string& uuid, bool aggregate);

}  // namespace gpuman::device
