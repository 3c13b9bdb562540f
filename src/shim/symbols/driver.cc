#include "shim/symbols/driver.h"

#include <dlfcn.h>

// The function to which dlsym_*.S jumps. gpuman_dlsym sets it before.
extern "C" __attribute__((visibility("hidden"))) void* gpuman_real_dlsym;
void* gpuman_real_dlsym = nullptr;

// glibc has this function. In a program of another libc there is none, and no dlsym of the shim that would
// ask for it either. A strong reference would keep that program from starting.
#pragma weak dlvsym

namespace gpuman::shim {

void* learned[kDriverFunctions];

namespace {

using Dlsym = void*(void*, const char*);

void* libraries[2];  // handles of the driver's libraries; held for ever once found

void* Load(void* const& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

void* NoSymbol(void*, const char*) { return nullptr; }

// Returns whether the function is one of the replacements. A search in the global scope finds the shim's own
// functions first.
bool IsOurs(const void* function) {
  for (const void* own : kReplacements) {
    if (own == function) return true;
  }
  return false;
}

// Holds the loaded library of the function, so that a dlclose by the program leaves it in place: the shim has
// pointers into it.
void Hold(DriverFunctionId entry, void* function) {
  void*& library = libraries[IsNvml(entry) ? 1 : 0];
  Dl_info info{};
  if (Load(library) != nullptr || ::dladdr(function, &info) == 0 || info.dli_fname == nullptr) return;
  void* const handle = ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) __atomic_store_n(&library, handle, __ATOMIC_RELEASE);
}

void* Search(DriverFunctionId entry) {
  const char* const symbol = SymbolOf(entry);
  void*& library = libraries[IsNvml(entry) ? 1 : 0];
  if (Load(library) == nullptr) {
    const char* const name = IsNvml(entry) ? "libnvidia-ml.so.1" : "libcuda.so.1";
    void* const handle = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr) __atomic_store_n(&library, handle, __ATOMIC_RELEASE);
  }
  void* found = Load(library) != nullptr ? RealDlsym(Load(library), symbol) : nullptr;
  if (found == nullptr || IsOurs(found)) found = RealDlsym(RTLD_NEXT, symbol);
  return found;
}

}  // namespace

void* RealDlsym(void* handle, const char* symbol) {
  void* function = Load(gpuman_real_dlsym);
  if (function == nullptr) {
    for (const char* const version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
      function = ::dlvsym != nullptr ? ::dlvsym(RTLD_NEXT, "dlsym", version) : nullptr;
      if (function != nullptr) break;
    }
    if (function == nullptr) function = reinterpret_cast<void*>(&NoSymbol);
    __atomic_store_n(&gpuman_real_dlsym, function, __ATOMIC_RELEASE);
  }
  return symbol != nullptr ? reinterpret_cast<Dlsym*>(function)(handle, symbol) : nullptr;
}

bool IsRealDlsym(const void* function) { return function != nullptr && function == Load(gpuman_real_dlsym); }

void Learn(DriverFunctionId entry, void* function, FoundBy by) {
  void* expected = nullptr;
  if (IsOurs(function)) return;
  const bool first = __atomic_compare_exchange_n(&learned[static_cast<unsigned>(entry)], &expected, function,
                                                 false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  if (first && by == FoundBy::kLinker) Hold(entry, function);
}

void* FindReal(DriverFunctionId entry) {
  void* const function = Search(entry);
  if (function == nullptr || IsOurs(function)) return nullptr;
  Learn(entry, function, FoundBy::kLinker);
  return function;
}

void LearnAll() {
  for (unsigned i = 0; i < kDriverFunctions; ++i) {
    if (!IsNvml(static_cast<DriverFunctionId>(i))) RealOf(static_cast<DriverFunctionId>(i));
  }
}

}  // namespace gpuman::shim
