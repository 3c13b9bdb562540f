// How many bytes the process has on each device, held against the job's limit.
//
// Reserve before the driver is asked, Settle or GiveBack afterwards: what two threads, or two processes of
// the job, take at the same time never passes the limit together. Thread-safe. Bytes are rounded up to the
// ledger's unit.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/accounting_state.h"
#include "shim/link/join.h"

namespace gpuman::shim {

// The ledger is there: what was counted until now counts in it, whatever the limit.
void Join(AccountingState& state, const JoinedLedger& joined);

// Where an allocation goes.
struct Where {
  int device;
  std::uint64_t context;
  std::uint64_t granule;  // what the device gives memory in
};

// The current context and its device; false where there is none, or the device is beyond what is counted.
bool CurrentWhere(AccountingState& state, Where& where);
// The device's granule; 0 where it is beyond what is counted.
std::uint64_t GranuleOf(AccountingState& state, int device);
// Which of the ledger's GPUs the device is; below 0: none, or not known.
int LedgerGpuOf(AccountingState& state, int device);

// False: it would pass the limit. Before that is said, what is free without anybody knowing is found: memory
// that pools gave back, that of processes of the job that have ended, and what pools have and do not use.
bool Reserve(AccountingState& state, int device, std::uint64_t bytes);
// The same for who holds state.pools.
bool ReserveWithPools(AccountingState& state, int device, std::uint64_t bytes);
// The same, but pools keep what they have.
bool ReserveBesidePools(AccountingState& state, int device, std::uint64_t bytes);
// The same, without looking for anything.
bool ReserveAtOnce(AccountingState& state, int device, std::uint64_t bytes);
// Whether the job is within the room that the daemon gives it on the device for now.
bool IsWithinRoom(AccountingState& state, int device);
void GiveBack(AccountingState& state, int device, std::uint64_t bytes);
// Counts what the device has given already.
void Charge(AccountingState& state, int device, std::uint64_t bytes);
// After the driver has answered: `reserved` becomes `cost`. False where more is not to be had; `reserved`
// stays.
bool Settle(AccountingState& state, int device, std::uint64_t reserved, std::uint64_t cost);

// What the program is told of a device.
struct ReportedMemory {
  std::uint64_t limit;  // UINT64_MAX: none
  std::uint64_t used;   // by the job
};
ReportedMemory ReportedMemoryOf(AccountingState& state, int device);
ReportedMemory ReportedMemoryOf(AccountingState& state, const std::uint8_t (&uuid)[16]);

// By this process, in the ledger or not.
std::uint64_t CountedOn(AccountingState& state, int device);

// What one context costs on the device, as far as is known.
std::uint64_t ContextBytes(AccountingState& state, int device);

}  // namespace gpuman::shim
