// What the shim keeps of the memory that the process has: how much counts on each device, and what costs
// what.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "shim/accounting/allocations.h"
#include "shim/accounting/arrays.h"
#include "shim/accounting/table.h"
#include "shim/accounting/virtual_memory.h"
#include "shim/link/link_state.h"

namespace gpuman::shim {

struct Device {
  bool known;
  std::uint8_t uuid[16];
  std::uint64_t granule;
  std::uint64_t held;  // bytes that this process counts there, in the ledger or not
  bool in_ledger;
  unsigned gpu;  // of the ledger
};

inline constexpr int kNoDevice = -1;

struct Pool {
  int device;  // kNoDevice: of the host
  std::uint64_t held;
};

struct Context {
  int device;
  std::uint64_t held;
};

struct AccountingState : LinkState {
  // Counting (meter.cc).
  pthread_mutex_t meter;
  std::uint32_t changes;  // of the ledger, seen last
  Device devices[kMaxDevices];

  // What costs what.
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
  // For pools: gives back what the shim's own pools have on the device and do not use, and returns how many
  // bytes. Who has such pools sets it with the first (stream_pools.cc); null: nobody has.
  std::uint64_t (*release_unused)(AccountingState& state, int device);
  pthread_mutex_t contexts;
  Table<Context> context;
  std::uint64_t primary[kMaxDevices];
};

}  // namespace gpuman::shim
