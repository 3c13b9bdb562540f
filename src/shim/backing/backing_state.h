// What the shim keeps of backed memory.
//
// Calls that have passed the gate change it, under `books`; so does the service thread while the gate is
// closed.
#pragma once

#include <cstdint>

#include "shim/accounting/memory_token_table.h"
#include "shim/accounting/regions.h"
#include "shim/accounting/slabs.h"
#include "shim/backing/ipc.h"
#include "shim/backing/ipc_server.h"
#include "shim/backing/stream_pools.h"
#include "shim/gate/gate_state.h"
#include "shim/libc/descriptor_store.h"

namespace gpuman::shim {

// The physical memory behind a piece of a region. `kept`: the number, above 0, of the descriptor in the
// descriptor store by which the memory came. Memory whose descriptor could not be kept cannot be exported: it
// is stuck on the device until it is freed. Memory that others can reach (`stays`), such as another process,
// is stuck as well.
struct PieceBacking {
  static constexpr int kOwn = 0, kStuck = -1, kUnkept = -2;
  enum Mark : std::uint32_t { kNone, kGoing, kFresh };  // kGoing: chosen to leave; kFresh: has just come
  std::uint64_t handle;
  int kept;
  Mark mark;
  bool stays = false;
};

struct BackingState : GateState {
  // Whether plain memory is made of managed memory (paging.cc), by device. Atomic; 0: not known yet, 1: yes,
  // 2: no.
  std::uint32_t paged[kMaxDevices];

  Regions regions;                  // under `books`
  HashTable<PieceBacking> handles;  // under `books`: the pieces of regions that are on the device, by address
  Slabs slabs;                      // under `books`
  MemoryTokenTable made;            // under `books`: the program's own memory, with regions and without
  StreamPoolsState streams;         // under `pools`
  std::uint64_t stuck[kMaxDevices];  // under `books`: bytes of pieces that cannot leave the device
  std::uint64_t imported;            // under `books`: bytes of pieces that came from another process
  std::uint64_t foreign;             // under `books`: how many imports and openings of the program there are
  std::uint64_t away[kMaxDevices];   // under `books`: bytes of pieces that are in host memory instead
  // Atomic; 1: the program has exported memory by descriptor, by dma-buf or through a multicast object.
  std::uint32_t shares;
  std::uint64_t births;   // under `books`: how many allocations there were
  std::uint32_t backing;  // atomic; 0: not known yet, 1: the shim makes regions, 2: it makes none
  int visible;            // how many devices the process sees; known with `backing`
  std::uint64_t reach;    // under `books`: the devices with contexts, one bit each
  DescriptorStore descriptor_store;
  Ipc ipc;
  IpcServer ipc_server;
};

}  // namespace gpuman::shim
