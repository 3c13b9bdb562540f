// Finds the function of the driver that a program means. A program asks by a symbol (dlsym), or by a name
// with flags and the CUDA version that it was written for (cuGetProcAddress). Generated from the list; pure.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"
#include "driver/abi/nvml.h"
#include "shim/symbols/entry_points.h"

namespace gpuman::shim {

// The functions that the shim replaces everywhere, then those that it replaces only where memory can leave
// the GPU, then those that it only calls. A twin follows its function.
#define GPUMAN_SHIM_TWIN_NONE(symbol)
#define GPUMAN_SHIM_TWIN_PTDS(symbol) symbol##_ptds,
#define GPUMAN_SHIM_TWIN_PTSZ(symbol) symbol##_ptsz,
enum class DriverFunctionId : unsigned {
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) symbol, GPUMAN_SHIM_TWIN_##twin(symbol)
  GPUMAN_SHIM_HOOKED(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol, entry_class) symbol,
      GPUMAN_SHIM_HOOKED_NVML(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) symbol, GPUMAN_SHIM_TWIN_##twin(symbol)
          GPUMAN_SHIM_BACKED(GPUMAN_SHIM_ROW) GPUMAN_SHIM_GATED(GPUMAN_SHIM_ROW)
              GPUMAN_SHIM_ASIDE(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
                  kFirstService,
  kLastReplaced = kFirstService - 1,  // so that the next one is kFirstService itself
#define GPUMAN_SHIM_ROW(symbol) symbol,
  GPUMAN_SHIM_SERVICES(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
};

inline constexpr unsigned kReplacedEverywhere =
    static_cast<unsigned>(DriverFunctionId::nvmlDeviceGetMemoryInfo_v2) + 1;
inline constexpr unsigned kReplaced = static_cast<unsigned>(DriverFunctionId::kFirstService);
inline constexpr unsigned kDriverFunctions = static_cast<unsigned>(DriverFunctionId::nvmlDeviceGetUUID) + 1;

// The driver's names of the entries, such as "cuMemAllocAsync_ptsz".
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
                GPUMAN_SHIM_ASIDE(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol) #symbol,
                    GPUMAN_SHIM_SERVICES(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
};
static_assert(sizeof kSymbols / sizeof kSymbols[0] == kDriverFunctions);

constexpr const char* SymbolOf(DriverFunctionId entry) { return kSymbols[static_cast<unsigned>(entry)]; }
constexpr bool IsNvml(DriverFunctionId entry) { return SymbolOf(entry)[0] == 'n'; }

// Which replacements count: those of every process, or also those of a process whose memory can leave the
// GPU.
enum class ReplacementSet { kEverywhere, kEvictable };

// Finds the replaced function with this symbol. Returns false when there is none.
bool FindReplaced(const char* symbol, ReplacementSet scope, DriverFunctionId& entry);

// Finds the replaced function that a driver answers for these. Returns false when the shim does not replace
// the answer.
bool FindReplaced(const char* name, int version, driver::abi::cuuint64_t flags, ReplacementSet scope,
                  DriverFunctionId& entry);

}  // namespace gpuman::shim
