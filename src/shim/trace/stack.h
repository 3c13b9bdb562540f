// The call stack of the calling thread, as it is written into a trace: return addresses, and lines of Python.
//
// No lock is held, and nothing is called that the program could have replaced. The first use loads libgcc_s,
// which most programs have anyway.
#pragma once

#include <cstdint>

#include "ledger/wire/trace.h"
#include "shim/trace/python.h"

namespace gpuman::shim {

struct CallStack {
  unsigned native, python;
  std::uint64_t address[ledger::wire::kMaxNativeFrames];
  PythonLine line[ledger::wire::kMaxPythonFrames];
};

// Looks for what WalkStack needs. Whoever calls this may be made to wait for the dynamic linker.
void PrepareToWalk();
void WalkStack(CallStack& stack);
// Stacks of the same hash are the same.
std::uint64_t HashOf(const CallStack& stack);

// A module that is loaded.
struct LoadedModule {
  std::uint64_t begin, end, base;
  bool interpreter;
  std::uint16_t id_bytes, path_bytes;
  std::uint8_t id[32];
  char path[ledger::wire::kMaxTraceText];
};

// Finds the module that has the address; false: none has it.
bool FindModule(std::uint64_t address, LoadedModule& module);

}  // namespace gpuman::shim
