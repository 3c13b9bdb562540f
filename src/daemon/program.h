// gpumand as a program: options, configuration, logging, signals, the loop.
#pragma once

namespace gpuman::daemon {

// Exit status: 0 stopped as asked, 1 failed, 2 usage or configuration.
int RunProgram(int argc, char** argv);

}  // namespace gpuman::daemon
