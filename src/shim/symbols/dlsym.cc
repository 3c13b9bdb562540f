// What dlsym answers: the shim's functions for exact names of the driver's functions that it replaces, and
// for every other name what the real dlsym answers. dlsym itself is in dlsym_*.S.
#include <dlfcn.h>

#include <cstring>

#include "shim/symbols/driver.h"
#include "shim/symbols/evictable.h"

namespace gpuman::shim {
namespace {

// Returns whether dlsym searches all that is loaded, the program first. A function that this search finds
// under the driver's name before the shim's own is the program's. It is a function of the program's own or,
// in a program at a fixed address, an entry that leads to the function that the program was linked with: the
// shim's.
bool SearchesAll(void* handle) {
  return handle == RTLD_DEFAULT || handle == ::dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace

// The function returns this in two registers. `decided` 0: the real dlsym has to answer, called as if by the
// program itself.
struct DlsymAnswer {
  void* function;
  unsigned long decided;
};

// The shim's own dlsym. No search finds it, since none of its versions is the default.
extern "C" __attribute__((visibility("hidden"))) void* gpuman_dlsym_entry(void* handle, const char* symbol);

extern "C" __attribute__((visibility("hidden"))) DlsymAnswer gpuman_dlsym(void* handle, const char* symbol) {
  if (DriverFunctionId entry{};
      symbol != nullptr && handle != RTLD_NEXT && FindReplaced(symbol, ReplacementSet::kEvictable, entry)) {
    void* const found = RealDlsym(handle, symbol);
    const bool replaced = static_cast<unsigned>(entry) < kReplacedEverywhere || MayBeEvicted();
    // A search in the global scope finds the shim's own function. It is the answer only if a driver is behind
    // it.
    if (found == ReplacementOf(entry)) {
      void* const behind = RealOf(entry);
      return {replaced && behind != nullptr ? found : behind, 1};
    }
    if (found != nullptr && !SearchesAll(handle)) {
      Learn(entry, found, FoundBy::kLinker);
      return {replaced ? ReplacementOf(entry) : found, 1};
    }
  } else if (symbol != nullptr && handle != RTLD_NEXT && std::strcmp(symbol, "dlsym") == 0) {
    void* const found = RealDlsym(handle, symbol);
    if (IsRealDlsym(found)) return {reinterpret_cast<void*>(&gpuman_dlsym_entry), 1};
  } else {
    RealDlsym(nullptr, nullptr);  // the real dlsym is known from here on
  }
  return {nullptr, 0};
}

}  // namespace gpuman::shim
