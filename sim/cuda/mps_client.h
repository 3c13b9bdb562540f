// This process as a client of the simulated MPS (sim/mps/daemon.h).
#pragma once

#include <cstdint>

#include "driver/abi/cuda_enums.h"

namespace gpuman::sim::cuda {

class Driver;

struct MpsMembership {
  bool is_client = false;          // false: no daemon answers there, and the process runs without MPS
  std::uint64_t memory_limit = 0;  // of its server or namespace for device 0, in bytes; 0: no limit
  int protocol = 2;
  driver::abi::CUresult refusal = driver::abi::CUDA_SUCCESS;  // else: its server serves another user alone
};

// Joins the server of MPS that CUDA_MPS_PIPE_DIRECTORY names, and waits while the control daemon serves
// another user. A client's driver fails when the server ends or the client is terminated.
MpsMembership JoinMps(Driver& driver);

// Whether CUDA_MPS_PINNED_DEVICE_MEM_LIMIT names a device that the process does not see. Then no limit of MPS
// holds for its memory by protocol 3, as measured with driver 615.
bool NamesUnseenDevice(const char* variable, int devices);

// The limit of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT ("0=1G,1=512M") for a device; 0: none.
std::uint64_t MpsLimitOf(const char* variable, int ordinal);

}  // namespace gpuman::sim::cuda
