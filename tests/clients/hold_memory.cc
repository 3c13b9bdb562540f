// Holds memory of a simulated GPU until its standard input ends: hold_memory GPU BYTES. Prints "holding" once
// it holds the memory.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "sim/state/state.h"

int main(int argc, char** argv) {
  using namespace gpuman::sim;  // NOLINT(google-build-using-namespace)
  if (argc != 3) return 2;
  const auto gpu = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  const std::uint64_t bytes = std::strtoull(argv[2], nullptr, 10);
  const auto state = State::OpenFromEnvironment();
  if (!state || gpu >= state->gpus()) return 1;
  Client client(*state);
  client.ContextCreated(gpu);
  if (!client.ReserveDeviceBytes(gpu, bytes)) return 3;
  std::puts("holding");
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
