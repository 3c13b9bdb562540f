// Tells the daemon, in the ledger, of an allocation that the program did not get. The program itself may say
// no more than that it failed.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"
#include "ledger/wire/layout.h"

namespace gpuman::shim {

struct AccountingState;

// The shim calls this when the program's call has its result. Where the result is out of memory, it writes
// down how many bytes were asked for. `full`: the device had no memory, or no room came for the job on a
// shared device; else the job's limit refused. Any thread may call this; it does not hold `meter`.
void TellIfRefused(AccountingState& state, int device, std::uint64_t bytes, driver::abi::CUresult result,
                   bool full, ledger::wire::RefusedWhat what = ledger::wire::RefusedWhat::kMemory);

}  // namespace gpuman::shim
