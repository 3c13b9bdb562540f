#include "shim/symbols/replaced.h"

#include <cstring>

namespace gpuman::shim {
namespace {

using driver::abi::PerThreadStreamSuffix;

// A function as a program asks cuGetProcAddress for it.
struct Procedure {
  const char* name;
  int since;
  DriverFunctionId entry;
  bool has_twin;  // the twin is the next entry
};

consteval const driver::abi::CudaFunction& InAbi(std::string_view symbol) {
  for (const auto& function : driver::abi::kCudaFunctions) {
    if (function.symbol == symbol) return function;
  }
  __builtin_unreachable();  // no such symbol in the driver's list: does not compile
}

consteval Procedure Row(std::string_view symbol, DriverFunctionId entry, PerThreadStreamSuffix twin) {
  const auto& function = InAbi(symbol);
  if (function.twin != twin) __builtin_unreachable();  // the twin differs from the driver's list
  return {function.name.data(), function.version, entry, twin != PerThreadStreamSuffix::kNone};
}

constexpr PerThreadStreamSuffix NONE = PerThreadStreamSuffix::kNone;
constexpr PerThreadStreamSuffix PTDS = PerThreadStreamSuffix::kPtds;
constexpr PerThreadStreamSuffix PTSZ = PerThreadStreamSuffix::kPtsz;
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) Row(#symbol, DriverFunctionId::symbol, twin),
constexpr Procedure kEverywhere[] = {GPUMAN_SHIM_HOOKED(GPUMAN_SHIM_ROW)};
constexpr Procedure kEvictable[] = {GPUMAN_SHIM_BACKED(GPUMAN_SHIM_ROW) GPUMAN_SHIM_GATED(GPUMAN_SHIM_ROW)
                                        GPUMAN_SHIM_ASIDE(GPUMAN_SHIM_ROW)};
#undef GPUMAN_SHIM_ROW

struct Answer {
  const Procedure* row = nullptr;
  bool twin = false;
};

// Returns the newest row of that name that was there in the version, or `best` where that is newer.
template <std::size_t count>
Answer Newest(const Procedure (&rows)[count], const char* name, int version, bool per_thread, Answer best) {
  for (const Procedure& row : rows) {
    if (std::strcmp(row.name, name) != 0) continue;
    const bool twin = row.has_twin && per_thread;
    const int since =
        twin && row.since < driver::abi::kFirstTwinVersion ? driver::abi::kFirstTwinVersion : row.since;
    if (since > version || (best.row != nullptr && row.since <= best.row->since)) continue;
    best = {&row, twin};
  }
  return best;
}

}  // namespace

bool FindReplaced(const char* symbol, ReplacementSet scope, DriverFunctionId& entry) {
  const bool ours = (symbol[0] == 'c' && symbol[1] == 'u') || (symbol[0] == 'n' && symbol[1] == 'v');
  if (!ours) return false;
  const unsigned count = scope == ReplacementSet::kEvictable ? kReplaced : kReplacedEverywhere;
  for (unsigned i = 0; i < count; ++i) {
    if (std::strcmp(kSymbols[i], symbol) != 0) continue;
    entry = static_cast<DriverFunctionId>(i);
    return true;
  }
  return false;
}

bool FindReplaced(const char* name, int version, driver::abi::cuuint64_t flags, ReplacementSet scope,
                  DriverFunctionId& entry) {
  const bool per_thread = (flags & driver::abi::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  Answer best = Newest(kEverywhere, name, version, per_thread, {});
  if (scope == ReplacementSet::kEvictable) best = Newest(kEvictable, name, version, per_thread, best);
  if (best.row == nullptr) return false;
  entry = static_cast<DriverFunctionId>(static_cast<unsigned>(best.row->entry) + (best.twin ? 1 : 0));
  return true;
}

}  // namespace gpuman::shim
