// The memory of each rank that the kernels of all ranks reach, as NCCL makes it.
#pragma once

#include <vector>

#include "board.h"
#include "mailbox.h"
#include "options.h"
#include "plan.h"
#include "session.h"

namespace gpuman::load {

inline constexpr std::uint64_t kBlockWords = 1024;
inline constexpr std::uint64_t kBlockBytes = kBlockWords * sizeof(std::uint64_t);
inline constexpr std::uint64_t kWindowBytes = 4 << 20;

// Where the parts of a window lie, for each lane and each other rank: bytes from its begin.
struct WindowLayout {
  // What the other has sent: two blocks.
  static constexpr std::uint64_t Messages(unsigned lane, unsigned other) {
    return kFlags + (std::uint64_t{lane} * kMaxRanks + other) * 2 * kBlockBytes;
  }
  // The words by which the other tells how many messages are there, and how many it has taken.
  static constexpr std::uint64_t There(unsigned lane, unsigned other) {
    return (std::uint64_t{lane} * kMaxRanks + other) * 2 * sizeof(std::uint64_t);
  }
  static constexpr std::uint64_t Taken(unsigned lane, unsigned other) {
    return There(lane, other) + sizeof(std::uint64_t);
  }

 private:
  static constexpr std::uint64_t kFlags = 64 << 10;
};
static_assert(WindowLayout::Taken(kLanes - 1, kMaxRanks - 1) < WindowLayout::Messages(0, 0));
static_assert(WindowLayout::Messages(kLanes, 0) <= kWindowBytes);

// What the parent gives its ranks.
struct Shared {
  Board* board = nullptr;
  const Mailboxes* mailboxes = nullptr;
};

// The device addresses of all windows in this process, by rank. Makes the own one, all zeros, passes it to
// the others and maps theirs: by descriptors of virtual memory, by legacy IPC, as pages of the host, or by
// their addresses. Waits for all ranks. The mappings stay until the process ends; a rank must not end before the kernels of all
// have.
base::Result<std::vector<driver::abi::CUdeviceptr>> OpenWindows(Session& session, const Options& options,
                                                                const Shared& shared, unsigned rank);

}  // namespace gpuman::load
