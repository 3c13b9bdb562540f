// The simulated MPS control daemon: takes commands of the control program and joins of CUDA programs on its
// sockets, and starts servers (processes that only wait) for programs that join.
//
//   command  -> one line                      <- the answer, then the end; by protocol 3 its first line is the
//                                                exit status
//   program  -> "join\n"                      <- "ok THREADS MEMORY\n" once a server of its user serves it; by
//                                                protocol 3 "ok THREADS MEMORY 3\n"
//                                             <- "no CODE\n": that server refuses it
//                                             <- "gone CODE\n" when it was terminated or its server died
//
// Its behaviour follows NVIDIA's documentation; docs/mps.md says what was observed with the real one. The
// daemon has one thread.
#pragma once

#include <string>
#include <vector>

namespace gpuman::sim::mps {

// What the daemon knows of the machine.
struct Machine {
  unsigned branch = 0;              // of the driver; 0: not known, an old one
  std::vector<std::string> gpus{};  // UUIDs; empty: not known
};

// Serves until a command tells it to quit; returns the exit status. `self`: the program, to start servers
// from. By protocol 2: a server for one user at a time.
int Serve(const std::string& directory, const std::string& self);
// By protocol 3: servers and namespaces with names.
int ServeV3(const std::string& directory, const std::string& self, const Machine& machine);

// Runs a server: waits until its control daemon is gone.
int BeServer();

}  // namespace gpuman::sim::mps
