#include "health/verdict.h"

namespace gpuman::health {
std::string_view ToString(HealthState state) { return base::WordOf(WordsOf(state), state); }
std::string_view ToString(RepairAction action) { return base::WordOf(WordsOf(action), action); }

std::string_view AdviceOf(RepairAction action) {
  switch (action) {
    case RepairAction::kNone:
      return "";
    case RepairAction::kRestartProgram:
      return "the program that ran has to be started again; the GPU is fine";
    case RepairAction::kInspectCooling:
      return "look at the machine's cooling and power supply";
    case RepairAction::kInspectLink:
      return "look at the slot, the riser and the cables, and at the bridge or the switch of NVLink";
    case RepairAction::kResetWhenIdle:
      return "reset the GPU when nothing runs on it: nvidia-smi --gpu-reset";
    case RepairAction::kDrainPeers:
      return "let the jobs on the GPUs that are linked to it come to their end";
    case RepairAction::kReset:
      return "reset the GPU: end what runs on it, then nvidia-smi --gpu-reset";
    case RepairAction::kDrainAndReset:
      return "let what runs on it come to its end, then nvidia-smi --gpu-reset";
    case RepairAction::kReboot:
      return "reboot the machine";
    case RepairAction::kPowerCycle:
      return "switch the machine off and on again";
    case RepairAction::kCheckPowerCable:
      return "check the GPU's power cable and its plugs";
    case RepairAction::kFieldDiagnostics:
      return "run NVIDIA's field diagnostics: they decide whether the GPU has to be replaced";
  }
  return "";
}

bool IsEndedByReset(RepairAction action) {
  switch (action) {
    case RepairAction::kResetWhenIdle:
    case RepairAction::kReset:
    case RepairAction::kDrainAndReset:
    case RepairAction::kDrainPeers:
    case RepairAction::kInspectLink:
      return true;
    default:
      return false;
  }
}

}  // namespace gpuman::health
