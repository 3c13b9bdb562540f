// The state of a warp that instructions work on; ptx_run.cc and ptx_ops.cc share it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sim/cuda/ptx_run.h"

namespace gpuman::sim::cuda::ptx {

struct Warp {
  Column* registers;
  std::span<const std::uint8_t> parameters;
  Memory* memory;

  // The threads that execute the current instruction: as bits, and as a column of all ones or zero.
  std::uint32_t active = 0;
  Column mask{};

  Fault fault = Fault::kNone;
  std::uint64_t fault_address = 0;

  // %globaltimer: starts at epoch_ns for every warp; elapsed by lane.
  std::uint64_t epoch_ns = 0;
  std::uint64_t warp_began_ns = 0;
  Column elapsed_ns{};
  bool waited = false;  // elapsed_ns is not all 0

  // Waiting for memory that somebody else writes. `fresh`: since the last pause the warp has read memory as
  // changing. `polls`: how often in a row it found the same value in the same word, and wrote nothing
  // meanwhile.
  bool fresh = false;
  unsigned polls = 0;
  std::uint64_t polled_address = 0, polled_value = 0;
  unsigned backward_branches = 0;
  bool given_up = false;

  std::array<Range, 4> recent{};
  unsigned next_recent = 0;

  std::uint64_t* At(std::uint16_t index) { return registers[index].lane.data(); }

  // Whether these bytes lie in one of the recent ranges.
  bool Has(std::uint64_t address, std::uint64_t size, bool write) const {
    for (const Range& range : recent) {
      if (address >= range.begin && address < range.end && range.end - address >= size &&
          (range.writable || !write))
        return true;
    }
    return false;
  }
  // Whether the kernel may touch `size` bytes at `address`; records the fault if not.
  bool Check(std::uint64_t address, unsigned size, bool write) {
    if (!Has(address, size, write)) return CheckSlowly(address, size, write);
    if (address % size == 0) return true;
    fault = Fault::kMisalignedAddress;
    fault_address = address;
    return false;
  }
  bool CheckSlowly(std::uint64_t address, unsigned size, bool write);

  void Polled(std::uint64_t address, std::uint64_t value) {
    fresh = true;
    polls = address == polled_address && value == polled_value ? polls + 1 : 0;
    polled_address = address;
    polled_value = value;
  }
  void Pause(std::uint64_t nanoseconds) {
    fresh = false;
    recent = {};
    given_up = !memory->Pause(nanoseconds, polls);
  }
};

}  // namespace gpuman::sim::cuda::ptx
