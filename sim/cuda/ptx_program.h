// Kernels decoded to the compact form that ptx_run.h executes: 32 threads (a warp) at a time, registers as
// columns of 32 values, one function call an instruction.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/cuda/ptx_text.h"

namespace gpuman::sim::cuda::ptx {

inline constexpr unsigned kLanes = 32;

// One register of a warp. Readers cut integers narrower than 64 bits; f32 is held as its bits, predicates as
// all ones or zero.
struct alignas(64) Column {
  std::array<std::uint64_t, kLanes> lane;
};

struct Warp;
struct Instruction;
using Execute = void (*)(Warp&, const Instruction&);

enum class Flow : std::uint8_t { kNext, kBranch, kReturn };

inline constexpr std::uint16_t kNoGuard = 0xffff;

struct Instruction {
  Execute execute = nullptr;
  std::int64_t offset = 0;  // of a memory operand, bytes
  std::uint32_t target = 0;
  std::uint16_t d = 0, a = 0, b = 0, c = 0;  // registers
  std::uint16_t guard = kNoGuard;
  bool guard_negated = false;
  Flow flow = Flow::kNext;
};

// The registers that the hardware sets.
enum class Special : std::uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneId,
  kWarpId,
  kNwarpId,
  kSmId,
  kNsmId,
  kTimer
};

struct SpecialUse {
  Special special;
  std::uint16_t register_index;
};

struct Constant {
  std::uint16_t register_index;
  std::uint64_t value;
  std::int32_t global = -1;  // if not negative: the address of this variable is added
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  unsigned parameter_bytes = 0;
  unsigned max_threads = 1024;
  unsigned registers = 0;  // columns
  std::vector<Constant> constants;
  std::vector<SpecialUse> specials;
  std::vector<Instruction> code;
};

struct Program {
  unsigned version = 0;
  unsigned target = 0;
  std::vector<GlobalVariable> globals;
  std::vector<Kernel> kernels;
};

// Decodes a module's text. The error is a sentence with a line number. Pure.
tl::expected<Program, std::string> Decode(Text text);

}  // namespace gpuman::sim::cuda::ptx
