#include "shim/replaced.h"

#include <cstring>

namespace gpuman::shim {
namespace {

using driver::abi::CudaTwin;

#define GPUMAN_SHIM_TEXT_NONE(symbol)
#define GPUMAN_SHIM_TEXT_PTDS(symbol) #symbol "_ptds",
#define GPUMAN_SHIM_TEXT_PTSZ(symbol) #symbol "_ptsz",
constexpr const char* kSymbols[] = {
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) #symbol, GPUMAN_SHIM_TEXT_##twin(symbol)
    GPUMAN_SHIM_HOOKED(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol, entry_class) #symbol,
        GPUMAN_SHIM_HOOKED_NVML(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol) #symbol,
            GPUMAN_SHIM_SERVICES(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
};
static_assert(sizeof kSymbols / sizeof kSymbols[0] == kEntries);

// What cuGetProcAddress is asked for.
struct Procedure {
  const char* name;
  int since;
  Entry entry;
  bool has_twin;  // which is the next entry
};

consteval const driver::abi::CudaFunction& InAbi(std::string_view symbol) {
  for (const auto& function : driver::abi::kCudaFunctions) {
    if (function.symbol == symbol) return function;
  }
  __builtin_unreachable();  // no such symbol in the driver's list: does not compile
}

consteval Procedure Row(std::string_view symbol, Entry entry, CudaTwin twin) {
  const auto& function = InAbi(symbol);
  if (function.twin != twin) __builtin_unreachable();  // the twin differs from the driver's list
  return {function.name.data(), function.version, entry, twin != CudaTwin::kNone};
}

constexpr CudaTwin NONE = CudaTwin::kNone;
constexpr CudaTwin PTSZ = CudaTwin::kPtsz;
constexpr Procedure kProcedures[] = {
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) Row(#symbol, Entry::symbol, twin),
    GPUMAN_SHIM_HOOKED(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
};

}  // namespace

const char* SymbolOf(Entry entry) { return kSymbols[static_cast<unsigned>(entry)]; }

bool IsNvml(Entry entry) { return SymbolOf(entry)[0] == 'n'; }

bool FindReplaced(const char* symbol, Entry& entry) {
  const bool ours = (symbol[0] == 'c' && symbol[1] == 'u') || (symbol[0] == 'n' && symbol[1] == 'v');
  if (!ours) return false;
  for (unsigned i = 0; i < kReplaced; ++i) {
    if (std::strcmp(kSymbols[i], symbol) != 0) continue;
    entry = static_cast<Entry>(i);
    return true;
  }
  return false;
}

bool FindReplaced(const char* name, int version, driver::abi::cuuint64_t flags, Entry& entry) {
  using driver::abi::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const Procedure* best = nullptr;
  bool twin = false;
  for (const Procedure& row : kProcedures) {
    if (std::strcmp(row.name, name) != 0) continue;
    const bool as_twin = row.has_twin && (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    const int since =
        as_twin && row.since < driver::abi::kFirstTwinVersion ? driver::abi::kFirstTwinVersion : row.since;
    if (since > version || (best != nullptr && row.since <= best->since)) continue;
    best = &row;
    twin = as_twin;
  }
  if (best == nullptr) return false;
  entry = static_cast<Entry>(static_cast<unsigned>(best->entry) + (twin ? 1 : 0));
  return true;
}

}  // namespace gpuman::shim
