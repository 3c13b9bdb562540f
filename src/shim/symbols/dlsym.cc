// What dlsym answers: the shim's functions for the driver's, by exact names, and for everything else what it
// always does. dlsym itself is in dlsym_*.S.
#include <dlfcn.h>

#include <cstring>

#include "shim/symbols/driver.h"
#include "shim/symbols/evictable.h"

namespace gpuman::shim {
namespace {

// Whether all that is loaded is searched, the program first. What is found there under the driver's name
// before the shim's own is the program's: a function of its own, or at a fixed address what stands for the
// one that it was linked with, which is the shim's again.
bool SearchesAll(void* handle) {
  return handle == RTLD_DEFAULT || handle == ::dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace

// Returned in two registers. Not decided: the real dlsym has to answer, called as if by the program itself.
struct DlsymAnswer {
  void* function;
  unsigned long decided;
};

// The shim's own dlsym, which no search shows: its versions are no defaults.
extern "C" __attribute__((visibility("hidden"))) void* gpuman_dlsym_entry(void* handle, const char* symbol);

extern "C" __attribute__((visibility("hidden"))) DlsymAnswer gpuman_dlsym(void* handle, const char* symbol) {
  if (Entry entry{};
      symbol != nullptr && handle != RTLD_NEXT && FindReplaced(symbol, Scope::kEvictable, entry)) {
    void* const found = RealDlsym(handle, symbol);
    const bool replaced = static_cast<unsigned>(entry) < kReplacedEverywhere || MayBeEvicted();
    // A search in the global scope meets the shim's own function: is there a driver behind it?
    if (found == ReplacementOf(entry)) {
      void* const behind = RealOf(entry);
      return {replaced && behind != nullptr ? found : behind, 1};
    }
    if (found != nullptr && !SearchesAll(handle)) {
      Learn(entry, found, true);
      return {replaced ? ReplacementOf(entry) : found, 1};
    }
  } else if (symbol != nullptr && handle != RTLD_NEXT && std::strcmp(symbol, "dlsym") == 0) {
    void* const found = RealDlsym(handle, symbol);
    if (IsRealDlsym(found)) return {reinterpret_cast<void*>(&gpuman_dlsym_entry), 1};
  } else {
    RealDlsym(nullptr, nullptr);  // is known from here on
  }
  return {nullptr, 0};
}

}  // namespace gpuman::shim
