// The replaced functions of CUDA, as a program calls them, and the table of their addresses. Two lists make
// both: the driver's list of functions, and the shim's list of what it does with each.
//
// The compiler makes a body for every function that gpuman knows. The linker keeps the bodies of replaced
// functions only: nothing refers to the others, and exports.map does not name them.
#include <cerrno>
#include <string_view>

#include "shim/gate/gate.h"
#include "shim/gate/streams.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"
#include "shim/libc/threads.h"

namespace gpuman::shim {
namespace {

GateState* FindOwnState() { return UnjoinedState(); }

// The shim's own body of an entry, where it has one.
template <unsigned entry>
struct HookOf {
  static constexpr bool exists = false;
  static constexpr bool gated = true;
};

// The gate is not for functions that only query sizes, or that have nothing to do with memory.
constexpr bool IsGated(EntryClass entry_class) {
  return entry_class != EntryClass::kQuery && entry_class != EntryClass::kPass;
}

#define GPUMAN_SHIM_HOOK(symbol, its_gated)                        \
  template <>                                                      \
  struct HookOf<static_cast<unsigned>(DriverFunctionId::symbol)> { \
    static constexpr bool exists = true;                           \
    [[maybe_unused]] static constexpr bool gated = its_gated;      \
    static constexpr auto* function = &hook::symbol;               \
  };
#define GPUMAN_SHIM_HOOK_NONE(symbol, its_gated)
#define GPUMAN_SHIM_HOOK_PTDS(symbol, its_gated) GPUMAN_SHIM_HOOK(symbol##_ptds, its_gated)
#define GPUMAN_SHIM_HOOK_PTSZ(symbol, its_gated) GPUMAN_SHIM_HOOK(symbol##_ptsz, its_gated)
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin)           \
  GPUMAN_SHIM_HOOK(symbol, IsGated(EntryClass::entry_class)) \
  GPUMAN_SHIM_HOOK_##twin(symbol, IsGated(EntryClass::entry_class))
GPUMAN_SHIM_HOOKED(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) \
  GPUMAN_SHIM_HOOK(symbol, true) GPUMAN_SHIM_HOOK_##twin(symbol, true)
GPUMAN_SHIM_BACKED(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW

// Which calls begin a capture or may end a context.
constexpr CallKind KindOf(std::string_view symbol) {
  if (symbol.starts_with("cuStreamBeginCapture")) return CallKind::kCapture;
  for (const std::string_view ends :
       {"cuCtxDestroy", "cuCtxDetach", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset"}) {
    if (symbol.starts_with(ends)) return CallKind::kEndsContext;
  }
  return CallKind::kPlain;
}

template <unsigned entry>
inline constexpr CallKind kKindOf = KindOf(kSymbols[entry]);

constexpr unsigned kNone = kDriverFunctions;

consteval unsigned Index(std::string_view symbol) {
  for (unsigned i = 0; i < kReplaced; ++i) {
    if (symbol == kSymbols[i]) return i;
  }
  return kNone;
}

// Functions that wait aside only (GPUMAN_SHIM_ASIDE); and cuMemGetInfo, which fails in a process that is
// checkpointed (measured: CUDA_ERROR_OPERATING_SYSTEM).
constexpr bool IsAside(std::string_view symbol) {
#define GPUMAN_SHIM_ROW(its_symbol, entry_class, twin) \
  if (symbol == #its_symbol || symbol == #its_symbol "_ptsz") return true;
  GPUMAN_SHIM_ASIDE(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
  return symbol == "cuMemGetInfo_v2";
}

template <unsigned entry>
inline constexpr bool kIsAside = IsAside(kSymbols[entry]);

constexpr bool IsLaunch(std::string_view symbol) {
  return symbol.starts_with("cuLaunchKernel") || symbol.starts_with("cuLaunchCooperativeKernel") ||
         symbol.starts_with("cuGraphLaunch");
}
// Returns the stream that a launch names.
template <typename... Rest>
CUstream StreamOf(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  CUstream stream, Rest...) {
  return stream;
}
template <typename... Rest>
CUstream StreamOf(const CUlaunchConfig* config, Rest...) {
  return config != nullptr ? config->hStream : nullptr;
}
inline CUstream StreamOf(CUgraphExec, CUstream stream) { return stream; }

template <unsigned entry>
inline constexpr bool kIsLaunch = IsLaunch(kSymbols[entry]);
template <unsigned entry>
inline constexpr bool kIsPerThread = std::string_view(kSymbols[entry]).ends_with("_ptsz");

// Gives the launch its mark, where one is due.
template <unsigned entry, typename... Arguments>
[[gnu::noinline]] void MarkLaunch(Arguments... arguments) {
  const NoCancellation whole;
  const int before = errno;
  GateState* const state = FindOwnState();
  if (state == nullptr) return;
  const CUstream stream = StreamOf(arguments...);
  BeforeLaunch(*state, kIsPerThread<entry> ? PerThread(stream) : stream);
  errno = before;
}

template <unsigned entry, typename Function>
struct Body;

template <unsigned entry, typename... Arguments>
struct Body<entry, CUresult(Arguments...)> {
  [[gnu::always_inline]] static CUresult Inner(Arguments... arguments) {
    if constexpr (HookOf<entry>::exists) {
      return HookOf<entry>::function(arguments...);
    } else {
      using Driver = CUresult(Arguments...);
      auto* const real = reinterpret_cast<Driver*>(RealOf(static_cast<DriverFunctionId>(entry)));
      return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : real(arguments...);
    }
  }
  [[gnu::always_inline]] static CUresult Call(Arguments... arguments) {
    if constexpr (kIsAside<entry>) {
      const QueryGuard guard(FindOwnState);
      return Inner(arguments...);
    } else if constexpr (HookOf<entry>::gated) {
      const GateGuard guard(FindOwnState, kKindOf<entry>);
      if constexpr (kIsLaunch<entry>) {
        if (__builtin_expect(guard.took_slow_path(), 0)) MarkLaunch<entry>(arguments...);
      }
      return Inner(arguments...);
    } else {
      return Inner(arguments...);
    }
  }
};

template <typename... Arguments>
struct Body<kNone, CUresult(Arguments...)> {
  static CUresult Call(Arguments...) { return CUDA_ERROR_NOT_SUPPORTED; }
};

}  // namespace

#define GPUMAN_SHIM_DEFINE(symbol, parameters, arguments)             \
  GPUMAN_EXPORT CUresult symbol parameters {                          \
    return Body<Index(#symbol), CUresult parameters>::Call arguments; \
  }
#define GPUMAN_SHIM_DEFINE_NONE(symbol, parameters, arguments)
#define GPUMAN_SHIM_DEFINE_PTDS(symbol, parameters, arguments) \
  GPUMAN_SHIM_DEFINE(symbol##_ptds, parameters, arguments)
#define GPUMAN_SHIM_DEFINE_PTSZ(symbol, parameters, arguments) \
  GPUMAN_SHIM_DEFINE(symbol##_ptsz, parameters, arguments)
#define GPUMAN_SHIM_ROW(name, symbol, version, twin, parameters, arguments) \
  GPUMAN_SHIM_DEFINE(symbol, parameters, arguments)                         \
  GPUMAN_SHIM_DEFINE_##twin(symbol, parameters, arguments)
extern "C" {
GPUMAN_CUDA_FUNCTIONS(GPUMAN_SHIM_ROW)
}
#undef GPUMAN_SHIM_ROW

// The order is that of DriverFunctionId (replaced.h).
#define GPUMAN_SHIM_ADDRESS_NONE(symbol)
#define GPUMAN_SHIM_ADDRESS_PTDS(symbol) reinterpret_cast<void*>(&symbol##_ptds),
#define GPUMAN_SHIM_ADDRESS_PTSZ(symbol) reinterpret_cast<void*>(&symbol##_ptsz),
void* const kReplacements[] = {
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) \
  reinterpret_cast<void*>(&symbol), GPUMAN_SHIM_ADDRESS_##twin(symbol)
    GPUMAN_SHIM_HOOKED(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol, entry_class) reinterpret_cast<void*>(&symbol),
        GPUMAN_SHIM_HOOKED_NVML(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
#define GPUMAN_SHIM_ROW(symbol, entry_class, twin) \
  reinterpret_cast<void*>(&symbol), GPUMAN_SHIM_ADDRESS_##twin(symbol)
            GPUMAN_SHIM_BACKED(GPUMAN_SHIM_ROW) GPUMAN_SHIM_GATED(GPUMAN_SHIM_ROW)
                GPUMAN_SHIM_ASIDE(GPUMAN_SHIM_ROW)
#undef GPUMAN_SHIM_ROW
};
static_assert(sizeof kReplacements / sizeof kReplacements[0] == kReplaced);

}  // namespace gpuman::shim
