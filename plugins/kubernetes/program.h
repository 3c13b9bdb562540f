// gpuman-kube-plugin as a program: options, configuration, signals.
#pragma once

namespace gpuman::kubernetes {

// The exit status: 0 after a signal, 1 for a failure, 2 for wrong usage or configuration.
int RunProgram(int argc, char** argv);

}  // namespace gpuman::kubernetes
