// Runs decoded kernels on the calling thread.
//
// The warps of a grid run one after another, so threads cannot wait for one another. Time read from
// %globaltimer moves as if all of them ran at once: a kernel that waits for a time costs almost no processor
// time, and the caller then sleeps for the time that the result reports.
//
// A kernel that waits for memory that somebody else writes (ld.volatile, ld.relaxed, ld.acquire of the same
// word again and again) waits in real time: the interpreter hands such a thread's pauses to the caller.
#pragma once

#include <cstdint>
#include <span>

#include "sim/cuda/ptx_program.h"

namespace gpuman::sim::cuda::ptx {

enum class Fault { kNone, kIllegalAddress, kMisalignedAddress, kTrap };

struct Range {
  std::uint64_t begin = 0, end = 0;  // addresses in this process
  bool writable = false;
};

// The addresses that a kernel may touch. Ranges that Find returns stay valid while the kernel runs.
class Memory {
 public:
  virtual ~Memory() = default;
  // The accessible range around `address`; false when there is none.
  virtual bool Find(std::uint64_t address, Range& range) = 0;
  // The kernel has polled `polls` times in vain a word that somebody else is to write, and asks to sleep
  // for `nanoseconds` (0: it does not ask). Ranges from before the call are no longer valid after it. False:
  // the kernel is to be given up.
  virtual bool Pause(std::uint64_t /*nanoseconds*/, unsigned /*polls*/) { return true; }
};

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
  std::uint64_t Count() const { return std::uint64_t{x} * y * z; }
};

struct RunResult {
  Fault fault = Fault::kNone;
  std::uint64_t fault_address = 0;
  std::uint64_t waited_ns = 0;  // the longest time that a thread waited by %globaltimer
  bool given_up = false;        // Pause said so
};

// `globals` has the address of each variable of the program; `parameters` at least kernel.parameter_bytes.
RunResult Run(const Kernel& kernel, std::span<const std::uint64_t> globals, Dimensions grid, Dimensions block,
              std::span<const std::uint8_t> parameters, Memory& memory);

}  // namespace gpuman::sim::cuda::ptx
