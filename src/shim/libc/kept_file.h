// A descriptor that the shim leaves open in a program, which may close it at any time (closefrom) and open
// something else under its number.
#pragma once

#include <cstdint>

namespace gpuman::shim {

// Where such descriptors begin, if they can: out of the way of programs that count on low numbers, or on
// select.
inline constexpr int kLowestKept = 600;

struct KeptFile {
  int descriptor;  // -1: none
  std::uint64_t device, inode;
};

// Knows the open file again by what it is. -1, or what is no open file: none.
KeptFile Keep(int descriptor);

// Whether the number still stands for that file.
bool IsStill(const KeptFile& file);

}  // namespace gpuman::shim
