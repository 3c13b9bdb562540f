// gpuman-kube-plugin as a program: options, configuration, signals.
#pragma once

namespace gpuman::kubernetes {

// The exit status: 0 ended by a signal, 1 failed, 2 usage or configuration.
int RunProgram(int argc, char** argv);

}  // namespace gpuman::kubernetes
