// Which function of the driver is meant, by the two ways a program asks: a symbol (dlsym), or a name with the
// CUDA version it was written for and flags (cuGetProcAddress). Generated from the list; pure.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"
#include "driver/abi/nvml.h"
#include "shim/symbols/entry_points.h"

namespace gpuman::shim {

// The functions that the shim replaces (a twin follows its function): everywhere, then those that it replaces
// only where memory can leave the GPU; then those that it only calls.
#define GPUMAN_SHIM_TWIN_NONE(symbol)
#define GPUMAN_SHIM_TWIN_PTDS(symbol) symbol##_ptds,
#define GPUMAN_SHIM_TWIN_PTSZ(symbol) symbol##_ptsz,
enum class Entry : unsigned {
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) symbol, GPUMAN_SHIM_TWIN_##twin(symbol)
  GPUMAN_SHIM_HOOKED(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol, entry_class) symbol,
      GPUMAN_SHIM_HOOKED_NVML(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) symbol, GPUMAN_SHIM_TWIN_##twin(symbol)
          GPUMAN_SHIM_BACKED(GPUMAN_SHIM_ROW) GPUMAN_SHIM_GATED(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
              kFirstService,
  kLastReplaced = kFirstService - 1,
#define GPUMAN_SHIM_ROW(symbol) symbol,
  GPUMAN_SHIM_SERVICES(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
};

inline constexpr unsigned kReplacedEverywhere = static_cast<unsigned>(Entry::nvmlDeviceGetMemoryInfo_v2) + 1;
inline constexpr unsigned kReplaced = static_cast<unsigned>(Entry::kFirstService);
inline constexpr unsigned kEntries = static_cast<unsigned>(Entry::nvmlDeviceGetUUID) + 1;

// The driver's names of the entries: "cuMemAllocAsync_ptsz".
#define GPUMAN_SHIM_TEXT_NONE(symbol)
#define GPUMAN_SHIM_TEXT_PTDS(symbol) #symbol "_ptds",
#define GPUMAN_SHIM_TEXT_PTSZ(symbol) #symbol "_ptsz",
inline constexpr const char* kSymbols[] = {
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) #symbol, GPUMAN_SHIM_TEXT_##twin(symbol)
    GPUMAN_SHIM_HOOKED(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol, entry_class) #symbol,
        GPUMAN_SHIM_HOOKED_NVML(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) #symbol, GPUMAN_SHIM_TEXT_##twin(symbol)
            GPUMAN_SHIM_BACKED(GPUMAN_SHIM_ROW) GPUMAN_SHIM_GATED(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol) #symbol,
                GPUMAN_SHIM_SERVICES(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
};
static_assert(sizeof kSymbols / sizeof kSymbols[0] == kEntries);

constexpr const char* SymbolOf(Entry entry) { return kSymbols[static_cast<unsigned>(entry)]; }
constexpr bool IsNvml(Entry entry) { return SymbolOf(entry)[0] == 'n'; }

// Which replacements count: those of every process, or also those of one whose memory can leave the GPU.
enum class Scope { kEverywhere, kEvictable };

// The replaced function with this symbol. False: none.
bool FindReplaced(const char* symbol, Scope scope, Entry& entry);

// The replaced function that a driver answers for these. False: the answer is none of ours.
bool FindReplaced(const char* name, int version, driver::abi::cuuint64_t flags, Scope scope, Entry& entry);

}  // namespace gpuman::shim
