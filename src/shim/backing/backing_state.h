// What the shim keeps of memory that it makes itself, so that it can leave the device.
//
// Calls that have passed the gate change it, under `books`, and the service thread does while the gate is
// closed.
#pragma once

#include <cstdint>

#include "shim/accounting/made_memory.h"
#include "shim/accounting/regions.h"
#include "shim/accounting/slabs.h"
#include "shim/backing/ipc.h"
#include "shim/backing/ipc_server.h"
#include "shim/backing/stream_pools.h"
#include "shim/gate/gate_state.h"
#include "shim/libc/descriptor_store.h"

namespace gpuman::shim {

// What is behind a piece of a region. `kept`: the descriptor in the descriptor store that it came by, above
// 0. What came and whose descriptor could not be kept cannot be passed on: it is stuck on the device until it
// is freed. So is what others can reach (`stays`).
struct PieceBacking {
  static constexpr int kOwn = 0, kStuck = -1, kUnkept = -2;
  enum Mark : std::uint32_t { kNone, kGoing, kFresh };  // chosen to leave; has just come
  std::uint64_t handle;
  int kept;
  Mark mark;
  bool stays = false;
};

struct BackingState : GateState {
  // Of what plain memory is made (paging.cc), by device. Atomic; 0: not known yet, 1: managed memory, 2: not.
  std::uint32_t paged[kMaxDevices];

  Regions regions;              // for books
  Table<PieceBacking> handles;  // for books: of the regions' pieces that are on the device, by address
  Slabs slabs;                  // for books: of regions
  MadeMemory made;              // for books: the program's own, with regions and without
  StreamMemory streams;         // for pools
  std::uint64_t stuck;          // for books: bytes of the pieces that cannot leave it
  std::uint64_t imported;       // for books: bytes of those that came from another process
  std::uint64_t foreign;        // for books: memory that the program imported itself, how many
  std::uint64_t away;           // for books: bytes of pieces that are in host memory instead
  std::uint64_t births;         // for books: allocations so far
  std::uint32_t backing;        // atomic; 0: not known yet, 1: regions are made, 2: none are
  int visible;                  // devices that the process sees; known with `backing`
  std::uint32_t home;           // atomic; 1 + the one of several whose memory can leave; 0: none yet
  std::uint64_t reach;          // for books: the devices with contexts, a bit each
  DescriptorStore descriptor_store;
  Ipc ipc;
  IpcServer ipc_server;
};

}  // namespace gpuman::shim
