// The result of the health check of a GPU: a state, and the action that an administrator must take. Values;
// thread-safe.
#pragma once

#include <optional>
#include <string_view>

#include "base/words.h"

namespace gpuman::health {

// In order of severity: the state of a GPU is the worst of its faults.
enum class HealthState {
  kHealthy,
  kDegraded,   // works; an administrator should inspect it, or reset it when idle
  kUnhealthy,  // gets no new jobs
};

// The actions that repair a fault, in the order in which to try them. The list does not have the replacement
// of a GPU, but it has the test that shows whether a replacement is needed (kFieldDiagnostics). If a GPU has
// several faults, the action that is later in this list counts, unless the driver itself asks for an action.
enum class RepairAction {
  kNone,
  kRestartProgram,
  kInspectCooling,  // and power
  kInspectLink,     // PCIe slot, riser and cable; NVLink bridge or fabric
  kResetWhenIdle,
  kDrainPeers,
  kReset,
  kDrainAndReset,
  kReboot,
  kPowerCycle,
  kCheckPowerCable,
  kFieldDiagnostics,
};

constexpr auto WordsOf(HealthState) {
  using enum HealthState;
  return base::Words<HealthState, 3>{
      {{kHealthy, "healthy"}, {kDegraded, "degraded"}, {kUnhealthy, "unhealthy"}}};
}
constexpr auto WordsOf(RepairAction) {
  using enum RepairAction;
  return base::Words<RepairAction, 12>{{
      {kNone, "none"},
      {kRestartProgram, "restart_program"},
      {kInspectCooling, "inspect_cooling"},
      {kInspectLink, "inspect_link"},
      {kResetWhenIdle, "reset_when_idle"},
      {kDrainPeers, "drain_peers"},
      {kReset, "reset"},
      {kDrainAndReset, "drain_and_reset"},
      {kReboot, "reboot"},
      {kPowerCycle, "power_cycle"},
      {kCheckPowerCable, "check_power_cable"},
      {kFieldDiagnostics, "field_diagnostics"},
  }};
}
std::string_view ToString(HealthState state);
std::string_view ToString(RepairAction action);

// A sentence for people: "reset the GPU when no job uses it: gpuman gpu drain 0, then nvidia-smi
// --gpu-reset".
std::string_view AdviceOf(RepairAction action);

// Whether a reset of the GPU ends a fault with this action.
bool IsEndedByReset(RepairAction action);

}  // namespace gpuman::health
