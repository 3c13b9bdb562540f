// Sets what a plan says through NVML, looks whether it is so, and undoes what it did when something fails.
//
// Calls may hang: for a worker thread.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "device/plan.h"
#include "driver/nvml.h"

namespace gpuman::device {

// The hint of an error that says that programs use the GPU.
inline constexpr const char* kInUseHint = "programs are using the GPU: gpuman proclist shows them";

struct GpuSteps {
  std::string uuid;
  std::vector<Step> steps;
};

struct Failure {
  std::string uuid;
  std::optional<Setting> setting;  // nullopt: the GPU as a whole
  base::Error error;
};

struct Outcome {
  std::vector<Failure> failures;    // the first ends the work, unless it goes on
  std::vector<GpuSteps> undone;     // put back after the failure
  std::vector<Failure> not_undone;  // could not be
  bool Succeeded() const { return failures.empty(); }
};

enum class OnFailure { kUndo, kGoOn };

// What those who wait may look at, and say, while it works. Thread-safe.
struct Progress {
  std::atomic<bool> abandoned{false};  // nobody waits any more: what was done is undone before the next step
  std::atomic<std::size_t> gpu{0};     // which of the work's
};

Outcome Apply(const driver::Nvml& nvml, const std::vector<GpuSteps>& work, OnFailure on_failure,
              Progress& progress);

base::Result<> ClearEccErrors(const driver::Nvml& nvml, const std::string& uuid, bool aggregate);

}  // namespace gpuman::device
