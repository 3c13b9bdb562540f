// The trace of a process: which allocations were drawn (sampler.h), from where, which of them were freed, and
// which were refused. It goes into a file of the job's directory of traces (ledger/wire/trace.h), record by
// record, so that a process that is killed leaves what it did until then.
//
// A trace never changes what a program gets. Where its file cannot be opened or written, is as large as it
// may be, or is closed by the program, the trace ends and the program goes on. No mutex is held while a stack
// is walked. Thread-safe.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "shim/libc/hash_table.h"
#include "shim/libc/kept_file.h"
#include "shim/link/link_state.h"
#include "shim/trace/sampler.h"

namespace gpuman::shim {

// A process that was just forked does not know yet.
enum class TracePhase : std::uint32_t { kUnknown, kOff, kOn };

struct AllocationTraceState {
  std::uint32_t phase;  // TracePhase; atomic
  std::uint64_t draws;  // atomic
  std::uint64_t mean;   // atomic; that of `pace`

  pthread_mutex_t mutex;
  bool begun;
  TracingBudget pace;
  std::uint64_t seed;
  KeptFile file;
  std::uint64_t written;  // bytes
  std::uint32_t refusals;
  HashTable<std::uint32_t> stacks, functions;  // their numbers, by hash
  struct Live {
    std::uint64_t bytes;
    std::uint32_t device;
    bool drawn;
  };
  HashTable<Live> live;         // allocations that were not freed, by key
  std::uint64_t held[64];       // their bytes on each device
  std::uint64_t named_devices;  // a bit for each
  struct Range {
    std::uint64_t begin, end;
  };
  unsigned ranges;
  Range range[512];  // of modules that are in the file
};

struct TraceState : LinkState {
  AllocationTraceState trace;
};

inline TracePhase PhaseOf(const AllocationTraceState& trace) {
  return static_cast<TracePhase>(__atomic_load_n(&trace.phase, __ATOMIC_ACQUIRE));
}

inline bool MayTrace(const AllocationTraceState& trace) {
  return __builtin_expect(PhaseOf(trace) != TracePhase::kOff, 0);
}

// Where the memory is.
struct TracedDevice {
  std::uint32_t number;  // below 64
  const std::uint8_t* uuid;
};

// `key`: what names the memory until its free. The caller of TraceFreed has not asked the driver yet: once
// the driver has freed an address, another thread may get it.
void TraceAllocated(AllocationTraceState& trace, const TracedDevice& device, std::uint64_t key,
                    std::uint64_t bytes);
void TraceFreed(AllocationTraceState& trace, std::uint64_t key);
void TraceRefused(AllocationTraceState& trace, const TracedDevice& device, std::uint64_t bytes);

}  // namespace gpuman::shim
