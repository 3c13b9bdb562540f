// `gpuman-sim inject …`: faults and readings, as subcommands of the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"
#include "sim/state/state.h"

namespace gpuman::sim {

// What a chosen fault does to the machine.
using Injection = std::function<base::Result<>(const State&)>;

// Declares the subcommands below `parent`; the chosen one sets `chosen`, which must outlive the parse.
void DeclareInjections(CLI::App& parent, Injection& chosen);

}  // namespace gpuman::sim
