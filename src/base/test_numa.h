// Reads what the kernel says of the NUMA nodes of memory.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <optional>

namespace gpuman::base {

// The node that the page's policy prefers; nullopt: none, or the kernel does not say.
inline std::optional<int> PreferredNode(const void* at) {
  // The values are those of linux/mempolicy.h, which not all machines have.
  constexpr int kPreferred = 1;            // MPOL_PREFERRED
  constexpr unsigned long kOfAddress = 2;  // MPOL_F_ADDR
  constexpr std::size_t kMaxNodes = 1024;
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMaxNodes / kBits> nodes{};
  int policy = 0;
  if (::syscall(SYS_get_mempolicy, &policy, nodes.data(), kMaxNodes + 1, at, kOfAddress) != 0 ||
      policy != kPreferred)
    return std::nullopt;
  for (std::size_t node = 0; node < kMaxNodes; ++node)
    if ((nodes[node / kBits] >> (node % kBits) & 1) != 0) return static_cast<int>(node);
  return std::nullopt;
}

}  // namespace gpuman::base
