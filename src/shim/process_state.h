// What the shim keeps in a process: its place in the job's ledger, and what its allocations cost.
//
// All of it lies in memory that a fork wipes (MADV_WIPEONFORK): a child starts with zeros, which is a state
// that has not been anywhere yet, with every mutex free. That is how the driver sees it too: contexts do not
// survive a fork. No mutex is held while the driver is called, except `pools`, `contexts` and `ipc.mutex`,
// each around calls of its own kind. Order: contexts, pools, ipc, books, meter.
//
// What can leave the device is changed by calls that have passed the gate, under `books`, and by the
// service thread while the gate is closed.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "ledger/wire/layout.h"
#include "ledger/wire/transfer.h"
#include "shim/account/allocations.h"
#include "shim/account/arrays.h"
#include "shim/account/made_memory.h"
#include "shim/account/regions.h"
#include "shim/account/slabs.h"
#include "shim/account/virtual_memory.h"
#include "shim/descriptor_store.h"
#include "shim/drain.h"
#include "shim/gate.h"
#include "shim/ipc.h"
#include "shim/ipc_server.h"
#include "shim/kept_file.h"
#include "shim/lock.h"
#include "shim/service_thread.h"
#include "shim/stream_pools.h"
#include "shim/watch.h"

namespace gpuman::shim {

struct Device {
  bool known;
  std::uint8_t uuid[16];
  std::uint64_t granule;
  std::uint64_t held;  // bytes that this process counts there, in the ledger or not
  bool in_ledger;
  unsigned gpu;  // of the ledger
};

struct Pool {
  int device;  // kNoDevice: of the host
  std::uint64_t held;
};

inline constexpr int kNoDevice = -1;

struct Context {
  int device;
  std::uint64_t held;
};

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

enum class JoinState : std::uint32_t {
  kAlone,   // no daemon has answered yet: counts, without a limit
  kJoined,  // counts in the ledger
  kNever    // no job of any daemon: does nothing
};

struct ProcessState {
  // Joining (join.cc).
  std::atomic<JoinState> join_state;
  std::uint32_t tries;
  std::uint64_t next_try;  // CLOCK_MONOTONIC, ns; atomic
  pthread_mutex_t join;

  // Counting (meter.cc).
  pthread_mutex_t meter;
  ledger::wire::Ledger* ledger;
  unsigned slot;
  KeptFile file;          // of the ledger, for reclaiming
  std::uint32_t changes;  // of the ledger, seen last
  Device devices[kMaxDevices];

  // What costs what (account/).
  pthread_mutex_t books;
  Allocations allocations;
  VirtualMemory virtual_memory;
  Arrays arrays;

  // Kept in step with the driver.
  pthread_mutex_t pools;
  Table<Pool> pool;
  std::uint64_t spare[kMaxDevices];   // counted, for a pool that grows at the limit
  std::uint64_t ending[kMaxDevices];  // of pools that were destroyed while work went on
  bool pools_used;                    // atomic
  StreamMemory streams;
  pthread_mutex_t contexts;
  Table<Context> context;
  std::uint64_t primary[kMaxDevices];

  // Of what plain memory is made (paging.cc), by device. Atomic; 0: not known yet, 1: managed memory, 2: not.
  std::uint32_t paged[kMaxDevices];

  // What can leave the device (backing.cc), and how it leaves and comes back (service_thread.cc).
  Gate gate;
  Regions regions;              // for books
  Table<PieceBacking> handles;  // for books: of the regions' pieces that are on the device, by address
  Slabs slabs;                  // for books: of regions
  MadeMemory made;              // for books: the program's own, with regions and without
  std::uint64_t stuck;          // for books: bytes of those that cannot leave it
  std::uint64_t imported;       // for books: bytes of those that came from another process
  std::uint64_t foreign;        // for books: memory that the program imported itself, how many
  std::uint64_t away;           // for books: bytes of pieces that are in host memory instead
  std::uint64_t births;         // for books: allocations so far
  std::uint32_t backing;        // atomic; 0: not known yet, 1: regions are made, 2: none are
  int visible;                  // devices that the process sees; known with `backing`
  std::uint32_t home;           // atomic; 1 + the one of several whose memory can leave; 0: none yet
  std::uint64_t reach;          // for books: the devices with contexts, a bit each
  std::uint32_t captures;       // atomic; streams that capture
  pthread_mutex_t capturing;    // held where a capture begins, and where one would be spoilt; after contexts
  Watch watch;
  Drain drain;
  ServiceThread service_thread;
  DescriptorStore descriptor_store;
  Ipc ipc;
  IpcServer ipc_server;
  unsigned segments;  // of host memory that has the data that is away; the service thread's own
  int segment[ledger::wire::kMaxSegments];  // in the descriptor store
};

// The state of this process as it is, joined or not; null where there can be none.
ProcessState* UnjoinedState();

// The state of this process, joined where that is possible now; null where the shim has nothing to do. Waits
// for the daemon at the first call: half a second until it takes the connection, then ten until it answers.
ProcessState* JoinedState();

// Asks the daemon, unless it was asked just now.
void JoinWhenDue(ProcessState& state);

// For the length of a hook: the program's errno stays as it was.
class HookScope {
 public:
  HookScope() : errno_(errno), state_(JoinedState()) {}
  ~HookScope() { errno = errno_; }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
  explicit operator bool() const { return state_ != nullptr; }
  ProcessState& operator*() const { return *state_; }

 private:
  int errno_;
  ProcessState* state_;
};

}  // namespace gpuman::shim
