// A descriptor that the shim leaves open in a program. The program may close it at any time (closefrom) and
// open another file under its number.
#pragma once

#include <cstdint>

namespace gpuman::shim {

// The lowest number of such descriptors, where that is possible. Programs may count on low numbers, or on
// select.
inline constexpr int kLowestKept = 600;

struct KeptFile {
  int descriptor;  // -1: none
  std::uint64_t device, inode;
};

// Remembers the open file by its device and inode. Where `descriptor` is -1 or no open file, the result has
// descriptor -1.
KeptFile Keep(int descriptor);

// Returns whether the number still stands for that file.
bool IsStill(const KeptFile& file);

}  // namespace gpuman::shim
