// Counts how many bytes the process has on each device, and holds the job's limit.
//
// A caller reserves bytes before it asks the driver, and afterwards says that the driver has granted them, or
// withdraws them. So two threads, or two processes of the job, that take memory at the same time never pass
// the limit together, and the job's peak has only what was granted. The ledger rounds bytes up to its unit.
// Thread-safe.
#pragma once

#include "driver/abi/cuda.h"
#include "ledger/wire/detail.h"
#include "shim/accounting/accounting_state.h"
#include "shim/link/join.h"

namespace gpuman::shim {

using ledger::wire::MemoryKind;

// The daemon has given the ledger: the bytes that the process counted until now count in the ledger, whatever
// the limit is.
void Join(AccountingState& state, const JoinedLedger& joined);

// Where an allocation goes.
struct AllocationTarget {
  int device;
  std::uint64_t context;
  std::uint64_t granule;  // the device gives memory in multiples of it
};

// Finds the current context and its device. Returns false where there is no context, or where the shim does
// not count the device.
bool CurrentWhere(AccountingState& state, AllocationTarget& where);
// Returns the device's granule; 0 where the shim does not count the device.
std::uint64_t GranuleOf(AccountingState& state, int device);
// Returns the index of the device among the ledger's GPUs; below 0: the ledger does not have the device.
int LedgerGpuOf(AccountingState& state, int device);

// Reserves the bytes; returns false where they would pass the limit. Before that, it looks for free memory
// that still counts: memory that pools gave back, memory of ended processes of the job, and unused memory of
// pools.
bool Reserve(AccountingState& state, int device, std::uint64_t bytes);
// As Reserve; the caller holds state.pools.
bool ReserveWithPools(AccountingState& state, int device, std::uint64_t bytes);
// As ReserveWithPools, but the pools keep their unused memory.
bool ReserveBesidePools(AccountingState& state, int device, std::uint64_t bytes);
// As Reserve, but it does not look for free memory.
bool ReserveAtOnce(AccountingState& state, int device, std::uint64_t bytes);
// Returns whether the job uses no more than the room that the daemon gives it on the device for now.
bool IsWithinRoom(AccountingState& state, int device);
// The driver has granted bytes that were reserved.
void Granted(AccountingState& state, int device, MemoryKind kind, std::uint64_t bytes);
// The driver has not granted bytes that were reserved.
void Withdraw(AccountingState& state, int device, std::uint64_t bytes);
// The process keeps granted bytes counted though its program has given them back (the headroom of pools).
void Retain(AccountingState& state, int device, MemoryKind kind, std::uint64_t bytes);
// The device has got back bytes that it had granted.
void GiveBack(AccountingState& state, int device, MemoryKind kind, std::uint64_t bytes);
// Counts bytes that the device has given already.
void Charge(AccountingState& state, int device, MemoryKind kind, std::uint64_t bytes);
// A hook calls this after the driver has granted the memory: `cost` bytes count instead of `reserved`.
// Returns false where the limit does not hold `cost`; then the caller gives up the memory, and withdraws
// `reserved`.
bool Commit(AccountingState& state, int device, MemoryKind kind, std::uint64_t reserved, std::uint64_t cost);

// Reported memory: what the shim tells the program of a device.
struct ReportedMemory {
  std::uint64_t limit;  // UINT64_MAX: none
  std::uint64_t used;   // by the job
};
ReportedMemory ReportedMemoryOf(AccountingState& state, int device);
ReportedMemory ReportedMemoryOf(AccountingState& state, const std::uint8_t (&uuid)[16]);

// What the job's granted memory on the device is, as this process knows it: the parts are `sum`. All zero
// where the ledger does not have the device.
ledger::wire::Composition CompositionOn(AccountingState& state, int device);

// Returns the bytes that this process counts on the device, in the ledger or not.
std::uint64_t CountedOn(AccountingState& state, int device);

// Returns the bytes that one context costs on the device; 0 where the ledger does not know them.
std::uint64_t ContextBytes(AccountingState& state, int device);
// A context was just made on the device. Where the ledger does not know what it costs, waits until the daemon
// has read the driver's figures since, so that the context counts in the uncounted memory: at most one
// second, and not at all where the job has no limit there.
void AwaitUncounted(AccountingState& state, int device);

}  // namespace gpuman::shim
