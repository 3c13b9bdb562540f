#include "health/verdict.h"

namespace gpuman::health {
std::string_view ToString(HealthState state) { return base::WordOf(WordsOf(state), state); }
std::string_view ToString(Action action) { return base::WordOf(WordsOf(action), action); }

std::string_view AdviceOf(Action action) {
  switch (action) {
    case Action::kNone:
      return "";
    case Action::kRestartProgram:
      return "the program that ran has to be started again; the GPU is fine";
    case Action::kInspectCooling:
      return "look at the machine's cooling and power supply";
    case Action::kInspectLink:
      return "look at the slot, the riser and the cables, and at the bridge or the switch of NVLink";
    case Action::kResetWhenIdle:
      return "reset the GPU when nothing runs on it: nvidia-smi --gpu-reset";
    case Action::kDrainPeers:
      return "let the jobs on the GPUs that are linked to it come to their end";
    case Action::kReset:
      return "reset the GPU: end what runs on it, then nvidia-smi --gpu-reset";
    case Action::kDrainAndReset:
      return "let what runs on it come to its end, then nvidia-smi --gpu-reset";
    case Action::kReboot:
      return "reboot the machine";
    case Action::kPowerCycle:
      return "switch the machine off and on again";
    case Action::kCheckPowerCable:
      return "check the GPU's power cable and its plugs";
    case Action::kFieldDiagnostics:
      return "run NVIDIA's field diagnostics: they decide whether the GPU has to be replaced";
  }
  return "";
}

bool IsEndedByReset(Action action) {
  switch (action) {
    case Action::kResetWhenIdle:
    case Action::kReset:
    case Action::kDrainAndReset:
    case Action::kDrainPeers:
    case Action::kInspectLink:
      return true;
    default:
      return false;
  }
}

}  // namespace gpuman::health
