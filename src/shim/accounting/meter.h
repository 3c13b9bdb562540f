// How many bytes the process has on each device, held against the job's limit.
//
// A caller reserves before it asks the driver, and settles or gives back afterwards: what two threads, or two
// processes of the job, take at the same time never passes the limit together. The ledger rounds bytes up to
// its unit. Thread-safe.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/accounting_state.h"
#include "shim/link/join.h"

namespace gpuman::shim {

// The daemon has given the ledger: what the process counted until now counts in it, whatever the limit is.
void Join(AccountingState& state, const JoinedLedger& joined);

// Where an allocation goes.
struct Where {
  int device;
  std::uint64_t context;
  std::uint64_t granule;  // what the device gives memory in
};

// Finds the current context and its device. It returns false where there is no context, or where the shim
// does not count the device.
bool CurrentWhere(AccountingState& state, Where& where);
// Returns the device's granule; 0 where the shim does not count the device.
std::uint64_t GranuleOf(AccountingState& state, int device);
// Returns which of the ledger's GPUs the device is; below 0: none, or it is not known.
int LedgerGpuOf(AccountingState& state, int device);

// Returns false where the bytes would pass the limit. Before it says so it looks for what is free without
// anybody knowing: memory that pools gave back, memory of processes of the job that have ended, and what
// pools have and do not use.
bool Reserve(AccountingState& state, int device, std::uint64_t bytes);
// The same for who holds state.pools.
bool ReserveWithPools(AccountingState& state, int device, std::uint64_t bytes);
// The same, but pools keep what they have.
bool ReserveBesidePools(AccountingState& state, int device, std::uint64_t bytes);
// The same, without looking for anything.
bool ReserveAtOnce(AccountingState& state, int device, std::uint64_t bytes);
// Says whether the job is within the room that the daemon gives it on the device for now.
bool IsWithinRoom(AccountingState& state, int device);
void GiveBack(AccountingState& state, int device, std::uint64_t bytes);
// Counts what the device has given already.
void Charge(AccountingState& state, int device, std::uint64_t bytes);
// Is called after the driver has answered: `reserved` becomes `cost`. It returns false where the limit holds
// no more, and `reserved` stays then.
bool Settle(AccountingState& state, int device, std::uint64_t reserved, std::uint64_t cost);

// What the shim tells the program of a device.
struct ReportedMemory {
  std::uint64_t limit;  // UINT64_MAX: none
  std::uint64_t used;   // by the job
};
ReportedMemory ReportedMemoryOf(AccountingState& state, int device);
ReportedMemory ReportedMemoryOf(AccountingState& state, const std::uint8_t (&uuid)[16]);

// Returns what this process counts there, in the ledger or not.
std::uint64_t CountedOn(AccountingState& state, int device);

// Returns what one context costs on the device, as far as the ledger knows.
std::uint64_t ContextBytes(AccountingState& state, int device);

}  // namespace gpuman::shim
