// Tells the daemon, in the ledger, of an allocation that the program did not get: the program may say no more
// than that it failed.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"

namespace gpuman::shim {

struct AccountingState;

// After the program's call has its result: where that is out of memory, writes down what was asked for.
// `full`: it was the device, or those that share it, that had no room; else the job's limit. Any thread, with
// no lock of `meter` held.
void TellIfRefused(AccountingState& state, int device, std::uint64_t bytes, driver::abi::CUresult result,
                   bool full);

}  // namespace gpuman::shim
