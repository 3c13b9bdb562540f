// Chooses the function that executes an opcode with its types for a warp.
#pragma once

#include <string>
#include <string_view>

#include "sim/cuda/ptx_program.h"

namespace gpuman::sim::cuda::ptx {

enum class Type : std::uint8_t { kU8, kU16, kU32, kU64, kS8, kS16, kS32, kS64, kF32, kF64, kPredicate };

// "b32" parses as "u32". False for an unknown name.
bool ParseType(std::string_view name, Type& type);

enum class Rounding : std::uint8_t { kNone, kNearest, kZero, kDown, kUp };

// nullptr if there is no such operation on such a type. Operands are in d, a, b, c.
Execute FindUnary(std::string_view operation, Type type);
Execute FindBinary(std::string_view operation, Type type);   // add sub mul.lo mul.wide mul.hi and shl …
Execute FindTernary(std::string_view operation, Type type);  // mad.lo mad.wide fma selp (predicate in c)
Execute FindCompare(std::string_view comparison, Type type);
Execute FindConvert(Type to, Type from, Rounding rounding);
// `fresh`: volatile, relaxed or acquire, of memory that somebody else writes meanwhile.
Execute FindLoad(Type type, bool fresh);
Execute FindStore(Type type, bool release);  // value in b
Execute FindLoadParameter(Type type);        // from `offset`
// d = old value; b is the operand; for cas, b compares and c replaces.
Execute FindAtomic(std::string_view operation, Type type);
Execute FindReadTimer();
Execute FindNanosleep();
Execute FindFence();
Execute FindTrap();
Execute FindNothing();

}  // namespace gpuman::sim::cuda::ptx
