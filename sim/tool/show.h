// `gpuman-sim show`: prints the simulated machine as text or JSON.
#pragma once

#include <string>

#include "sim/state/state.h"

namespace gpuman::sim {

std::string ShowText(const State& state);
std::string ShowJson(const State& state);

}  // namespace gpuman::sim
