// Finds the driver's own functions behind the functions that the shim replaces. It loads nothing: a program
// that has no driver in it does not get one by the shim. Thread-safe; without locks.
#pragma once

#include "shim/symbols/replaced.h"

namespace gpuman::shim {

// Calls the real dlsym. With a null symbol, it only finds the real dlsym.
void* RealDlsym(void* handle, const char* symbol);
bool IsRealDlsym(const void* function);

// Remembers the function that was found for the entry. kDriver: a driver answered it. kLinker: the dynamic
// linker found it, so the shim may ask for more functions of its library.
enum class FoundBy { kDriver, kLinker };
void Learn(DriverFunctionId entry, void* function, FoundBy by);

// The functions that the shim has learned, by entry; null: it has learned none.
extern void* learned[kDriverFunctions] __attribute__((visibility("hidden")));

// Looks for the function where the driver may be loaded; null: there is none.
void* FindReal(DriverFunctionId entry);

// Returns the driver's function; null where no driver with it is loaded.
inline void* RealOf(DriverFunctionId entry) {
  void* const function = __atomic_load_n(&learned[static_cast<unsigned>(entry)], __ATOMIC_ACQUIRE);
  return __builtin_expect(function != nullptr, 1) ? function : FindReal(entry);
}

// Looks for all functions of CUDA that are not known yet. The search takes the dynamic linker's lock. A
// thread that waits at the gate may hold that lock (a library that is being loaded uses CUDA in a
// constructor), so the service thread has to know all functions before it closes the gate.
void LearnAll();

// The addresses of the replacements, by entry. exports.cc makes the replacements and fills the table in, so
// the code here does not know a replacement by its name.
extern void* const kReplacements[kReplaced] __attribute__((visibility("hidden")));
inline void* ReplacementOf(DriverFunctionId entry) { return kReplacements[static_cast<unsigned>(entry)]; }

}  // namespace gpuman::shim

#define GPUMAN_REAL(symbol)                              \
  (reinterpret_cast<::gpuman::driver::abi::fn::symbol*>( \
      ::gpuman::shim::RealOf(::gpuman::shim::DriverFunctionId::symbol)))
#define GPUMAN_REAL_TWIN(symbol, suffix)                 \
  (reinterpret_cast<::gpuman::driver::abi::fn::symbol*>( \
      ::gpuman::shim::RealOf(::gpuman::shim::DriverFunctionId::symbol##suffix)))
