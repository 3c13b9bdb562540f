// This process as a client of the simulated MPS (sim/mps/daemon.h).
#pragma once

#include <cstdint>
#include <optional>

namespace gpuman::sim::cuda {

class Driver;

// Joins the control daemon that CUDA_MPS_PIPE_DIRECTORY names, and waits while the daemon serves another
// user. Returns the server's memory limit for device 0, in bytes; 0: no limit. nullopt: no daemon answers
// there, and the process runs without MPS, as with the real driver. From then on this process's driver fails
// when the server ends or the client is terminated.
std::optional<std::uint64_t> JoinMps(Driver& driver);

// The limit of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT ("0=1G,1=512M") for a device; 0: none.
std::uint64_t MpsLimitOf(const char* variable, int ordinal);

}  // namespace gpuman::sim::cuda
