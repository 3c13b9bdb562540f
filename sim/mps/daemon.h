// The simulated MPS control daemon: takes commands of the control program and joins of CUDA programs on one
// socket, and starts a server (a process that only waits) for each user whose programs join.
//
//   command  -> "get_server_list\n"           <- the answer, then the end
//   program  -> "join\n"                      <- "ok THREADS MEMORY\n" once its user's server serves;
//                                             <- "gone CODE\n" when it was terminated or its server died
//
// Its behaviour follows NVIDIA's documentation; docs/mps.md says what was observed with the real one. The
// daemon has one thread.
#pragma once

#include <string>

namespace gpuman::sim::mps {

// Serves until a command tells it to quit; returns the exit status. `self`: the program, to start servers
// from.
int Serve(const std::string& directory, const std::string& self);

// Runs a server: waits until its control daemon is gone.
int BeServer();

}  // namespace gpuman::sim::mps
