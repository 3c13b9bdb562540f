// What the shim keeps of the memory of the process: how many bytes count on each device, and what each
// allocation costs.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "ledger/wire/peaks.h"
#include "shim/accounting/allocations.h"
#include "shim/accounting/arrays.h"
#include "shim/accounting/virtual_memory.h"
#include "shim/libc/hash_table.h"
#include "shim/trace/trace.h"

namespace gpuman::shim {

struct Device {
  bool known;
  std::uint8_t uuid[16];
  std::uint64_t granule;
  std::uint64_t held;      // bytes that this process counts on the device, in the ledger or not
  std::uint64_t reserved;  // the part of them that the driver has not granted, or that no program has
  std::uint64_t of_kind[ledger::wire::kMemoryKinds];  // the other part, by MemoryKind
  std::uint64_t peak;                                 // the most that the other part has been
  bool in_ledger;
  unsigned gpu;                          // index in the ledger
  std::uint32_t home_entry;              // atomic; 1 + the index of its entry in Ledger::home; 0: it has none
  ledger::wire::ProcessPeak* peak_mark;  // in the ledger; null: it has none
};

inline constexpr int kNoDevice = -1;

struct Pool {
  int device;  // kNoDevice: the pool has host memory
  std::uint64_t held;
};

struct Context {
  int device;
  std::uint64_t held;
};

struct AccountingState : TraceState {
  // How many bytes count on each device (meter.cc).
  pthread_mutex_t meter;
  std::uint32_t changes;  // Ledger::changes, as the shim saw it last
  Device devices[kMaxDevices];
  std::uint32_t first_home;  // atomic; 1 + the device, of several (homes.h); 0: none yet

  // What each allocation costs.
  pthread_mutex_t books;
  Allocations allocations;
  VirtualMemory virtual_memory;
  Arrays arrays;

  // Pools and contexts. Each mutex is held around the driver's calls too, so that the entries agree with the
  // driver.
  pthread_mutex_t pools;
  HashTable<Pool> pool;
  std::uint64_t headroom[kMaxDevices];  // bytes of the headroom (pools.h), which count
  std::uint64_t ending[kMaxDevices];    // bytes of pools that were destroyed while their work went on
  bool pools_used;                      // atomic
  // The caller holds `pools`. The first gives back the memory that the shim's own pools have on the device
  // and do not use, and returns how many bytes; the second returns how many bytes of these pools no
  // allocation has. stream_pools.cc sets both with the first such pool; null: there is no such pool.
  std::uint64_t (*release_unused)(AccountingState& state, int device);
  std::uint64_t (*unused_bytes)(const AccountingState& state, int device);
  pthread_mutex_t contexts;
  HashTable<Context> context;
  std::uint64_t primary[kMaxDevices];
};

}  // namespace gpuman::shim
