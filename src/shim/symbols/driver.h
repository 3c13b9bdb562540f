// The driver's own functions behind the ones that the shim replaces, found without loading anything: a
// program that has no driver in it gets none by the shim. Thread-safe; without locks.
#pragma once

#include "shim/symbols/replaced.h"

namespace gpuman::shim {

// The real dlsym.
void* RealDlsym(void* handle, const char* symbol);
bool IsRealDlsym(const void* function);

// Remembers what a driver answered for the entry. `from_dlsym`: the linker found it, and may be asked for
// more of the library.
void Learn(Entry entry, void* function, bool from_dlsym);

// What the shim has learned, by entry; null where it has learned nothing.
extern void* learned[kEntries] __attribute__((visibility("hidden")));

// Looks for the function where the driver may be loaded.
void* FindReal(Entry entry);

// Returns the driver's function; null where no driver with it is loaded.
inline void* RealOf(Entry entry) {
  void* const function = __atomic_load_n(&learned[static_cast<unsigned>(entry)], __ATOMIC_ACQUIRE);
  return __builtin_expect(function != nullptr, 1) ? function : FindReal(entry);
}

// Looks for all functions of CUDA's that are not known yet. The search takes the linker's lock, which whoever
// waits at the gate may hold (a library that is being loaded uses CUDA in a constructor): who shuts the gate
// has to know them all before.
void LearnAll();

// The addresses of the replacements, by entry. exports.cc makes them and fills the table in, so nothing here
// knows a replacement by its name.
extern void* const kReplacements[kReplaced] __attribute__((visibility("hidden")));
inline void* ReplacementOf(Entry entry) { return kReplacements[static_cast<unsigned>(entry)]; }

}  // namespace gpuman::shim

#define GPUMAN_REAL(symbol)                              \
  (reinterpret_cast<::gpuman::driver::abi::fn::symbol*>( \
      ::gpuman::shim::RealOf(::gpuman::shim::Entry::symbol)))
#define GPUMAN_REAL_TWIN(symbol, suffix)                 \
  (reinterpret_cast<::gpuman::driver::abi::fn::symbol*>( \
      ::gpuman::shim::RealOf(::gpuman::shim::Entry::symbol##suffix)))
