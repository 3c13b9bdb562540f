#include "sim/cuda/ptx_ops.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "sim/cuda/ptx_warp.h"

namespace gpuman::sim::cuda::ptx {
namespace {

template <typename T>
T Get(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<T>(bits);
  }
}

template <typename T>
std::uint64_t Put(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<std::uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<std::uint64_t>(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? ~std::uint64_t{0} : 0;
  } else {
    return static_cast<std::uint64_t>(value);  // sign-extends, as a load into a wider register must
  }
}

// Integers are computed as 64 unsigned bits and cut off: they wrap without undefined behaviour.
template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T>;
template <typename T>
std::uint64_t Wide(T value) {
  return static_cast<std::uint64_t>(value);
}

struct Add {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (kIsInteger<T>)
      return static_cast<T>(Wide(a) + Wide(b));
    else
      return a + b;
  }
};
struct Subtract {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (kIsInteger<T>)
      return static_cast<T>(Wide(a) - Wide(b));
    else
      return a - b;
  }
};
struct Multiply {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (kIsInteger<T>)
      return static_cast<T>(Wide(a) * Wide(b));
    else
      return a * b;
  }
};
struct MultiplyHigh {
  template <typename T>
  static T Do(T a, T b) {
    __extension__ using Signed = __int128;
    __extension__ using Unsigned = unsigned __int128;
    using Big = std::conditional_t<std::is_signed_v<T>, Signed, Unsigned>;
    return static_cast<T>((static_cast<Big>(a) * static_cast<Big>(b)) >> (8 * sizeof(T)));
  }
};
struct Divide {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (!kIsInteger<T>) {
      return a / b;
    } else {
      if (b == 0) return static_cast<T>(-1);
      if constexpr (std::is_signed_v<T>) {
        if (b == static_cast<T>(-1)) return static_cast<T>(0 - Wide(a));
      }
      return static_cast<T>(a / b);
    }
  }
};
struct Remainder {
  template <typename T>
  static T Do(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == static_cast<T>(-1)) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct Minimum {
  template <typename T>
  static T Do(T a, T b) {
    return b < a ? b : a;
  }
};
struct Maximum {
  template <typename T>
  static T Do(T a, T b) {
    return a < b ? b : a;
  }
};
struct And {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct ExclusiveOr {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct ShiftLeft {
  template <typename T>
  static T Do(T a, std::uint32_t b) {
    return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(Wide(a) << b);
  }
};
struct ShiftRight {
  template <typename T>
  static T Do(T a, std::uint32_t b) {
    const std::uint32_t most = 8 * sizeof(T) - 1;
    if (b > most) return std::is_signed_v<T> ? static_cast<T>(a >> most) : T{0};
    return static_cast<T>(a >> b);
  }
};
struct Negate {
  template <typename T>
  static T Do(T a) {
    if constexpr (kIsInteger<T>)
      return static_cast<T>(0 - Wide(a));
    else
      return -a;
  }
};
struct Absolute {
  template <typename T>
  static T Do(T a) {
    if constexpr (!kIsInteger<T>)
      return std::fabs(a);
    else
      return a < T{0} ? static_cast<T>(0 - Wide(a)) : a;
  }
};
struct Not {
  template <typename T>
  static T Do(T a) {
    return static_cast<T>(~a);
  }
};
struct Move {
  template <typename T>
  static T Do(T a) {
    return a;
  }
};
struct SquareRoot {
  template <typename T>
  static T Do(T a) {
    return std::sqrt(a);
  }
};
struct Equal {
  template <typename T>
  static bool Do(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <typename T>
  static bool Do(T a, T b) {
    return a != b;
  }
};
struct Less {
  template <typename T>
  static bool Do(T a, T b) {
    return a < b;
  }
};
struct LessOrEqual {
  template <typename T>
  static bool Do(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <typename T>
  static bool Do(T a, T b) {
    return a > b;
  }
};
struct GreaterOrEqual {
  template <typename T>
  static bool Do(T a, T b) {
    return a >= b;
  }
};

// Writes compute(lane) to the register d of all active threads.
template <typename Compute>
void ForLanes(Warp& warp, const Instruction& i, Compute compute) {
  std::uint64_t* d = warp.At(i.d);
  if (warp.active == ~std::uint32_t{0}) {
    for (unsigned lane = 0; lane < kLanes; ++lane) d[lane] = compute(lane);
  } else {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t mask = warp.mask.lane[lane];
      d[lane] = (compute(lane) & mask) | (d[lane] & ~mask);
    }
  }
}

template <typename Op>
struct Unary {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    const std::uint64_t* a = warp.At(i.a);
    ForLanes(warp, i, [=](unsigned lane) { return Put<T>(Op::template Do<T>(Get<T>(a[lane]))); });
  }
};
template <typename Op>
struct Binary {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    const std::uint64_t *a = warp.At(i.a), *b = warp.At(i.b);
    ForLanes(warp, i,
             [=](unsigned lane) { return Put<T>(Op::template Do<T>(Get<T>(a[lane]), Get<T>(b[lane]))); });
  }
};
template <typename Op>
struct Shift {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    const std::uint64_t *a = warp.At(i.a), *b = warp.At(i.b);
    ForLanes(warp, i, [=](unsigned lane) {
      return Put<T>(Op::template Do<T>(Get<T>(a[lane]), static_cast<std::uint32_t>(b[lane])));
    });
  }
};
template <typename Op>
struct Compare {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    const std::uint64_t *a = warp.At(i.a), *b = warp.At(i.b);
    ForLanes(warp, i,
             [=](unsigned lane) { return Put<bool>(Op::template Do<T>(Get<T>(a[lane]), Get<T>(b[lane]))); });
  }
};
template <typename T>
using Twice =
    std::conditional_t<std::is_signed_v<T>, std::conditional_t<sizeof(T) == 2, std::int32_t, std::int64_t>,
                       std::conditional_t<sizeof(T) == 2, std::uint32_t, std::uint64_t>>;
struct MultiplyWide {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    const std::uint64_t *a = warp.At(i.a), *b = warp.At(i.b);
    using W = Twice<T>;
    ForLanes(warp, i, [=](unsigned lane) {
      return Put<W>(static_cast<W>(static_cast<W>(Get<T>(a[lane])) * static_cast<W>(Get<T>(b[lane]))));
    });
  }
};
struct MultiplyAdd {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    const std::uint64_t *a = warp.At(i.a), *b = warp.At(i.b), *c = warp.At(i.c);
    ForLanes(warp, i, [=](unsigned lane) {
      if constexpr (kIsInteger<T>) {
        return Put<T>(static_cast<T>(a[lane] * b[lane] + c[lane]));
      } else {
        return Put<T>(std::fma(Get<T>(a[lane]), Get<T>(b[lane]), Get<T>(c[lane])));
      }
    });
  }
};
struct MultiplyAddWide {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    const std::uint64_t *a = warp.At(i.a), *b = warp.At(i.b), *c = warp.At(i.c);
    using W = Twice<T>;
    ForLanes(warp, i, [=](unsigned lane) {
      const W product = static_cast<W>(static_cast<W>(Get<T>(a[lane])) * static_cast<W>(Get<T>(b[lane])));
      return Put<W>(static_cast<W>(Wide(product) + c[lane]));
    });
  }
};
struct Select {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    const std::uint64_t *a = warp.At(i.a), *b = warp.At(i.b), *c = warp.At(i.c);
    ForLanes(warp, i, [=](unsigned lane) { return (a[lane] & c[lane]) | (b[lane] & ~c[lane]); });
  }
};

// Float to integer clamps, and NaN gives zero.
template <typename To, typename From>
To ConvertValue(From value, Rounding rounding) {
  if constexpr (std::is_floating_point_v<From> && kIsInteger<To>) {
    if (std::isnan(value)) return 0;
    if (rounding == Rounding::kNearest) value = std::nearbyint(value);
    if (rounding == Rounding::kDown) value = std::floor(value);
    if (rounding == Rounding::kUp) value = std::ceil(value);
    if (value <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (value >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename To, typename From, Rounding rounding>
void Convert(Warp& warp, const Instruction& i) {
  const std::uint64_t* a = warp.At(i.a);
  ForLanes(warp, i,
           [=](unsigned lane) { return Put<To>(ConvertValue<To, From>(Get<From>(a[lane]), rounding)); });
}

// By how much each address is above the one before, as most accesses have it; nullopt: not all threads are
// active, or the steps differ. All threads at the same word: 0. A step downwards is the negative one, modulo
// 2^64.
std::optional<std::uint64_t> StepOf(const Warp& warp, const std::uint64_t* a) {
  if (warp.active != ~std::uint32_t{0}) return std::nullopt;
  const std::uint64_t step = a[1] - a[0];
  std::uint64_t others = 0;
  for (unsigned lane = 1; lane < kLanes; ++lane) others |= (a[lane] - a[lane - 1]) ^ step;
  return others == 0 ? std::optional(step) : std::nullopt;
}

// Whether all threads may access `size` bytes (a power of two) each, the first one at `first`: all lie in one
// of the recent ranges, and none is misaligned. False also where somebody has to look more closely.
bool HasAll(const Warp& warp, std::uint64_t first, std::uint64_t step, std::uint64_t size, bool write) {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 48;  // beyond that the lanes could go round 2^64
  const bool down = static_cast<std::int64_t>(step) < 0;
  const std::uint64_t length = down ? 0 - step : step;
  if (length > kLongest || ((first | length) & (size - 1)) != 0) return false;
  const std::uint64_t span = (kLanes - 1) * length;
  return warp.Has(down ? first - span : first, span + size, write);
}

// Calls access(lane, pointer) for the active threads, if all their addresses are valid.
template <typename T, typename Access>
void ForAddresses(Warp& warp, const Instruction& i, bool write, Access access) {
  if (write) warp.polls = 0;
  const std::uint64_t* a = warp.At(i.a);
  if (const auto step = StepOf(warp, a)) {
    std::uint64_t address = a[0] + static_cast<std::uint64_t>(i.offset);
    if (HasAll(warp, address, *step, sizeof(T), write)) {
      for (unsigned lane = 0; lane < kLanes; ++lane, address += *step)
        access(lane, reinterpret_cast<T*>(address));
      return;
    }
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((warp.active >> lane & 1) == 0) continue;
    const std::uint64_t address = a[lane] + static_cast<std::uint64_t>(i.offset);
    if (!warp.Check(address, sizeof(T), write)) return;
    access(lane, reinterpret_cast<T*>(address));
  }
}

// Relaxed atomics: the host, copies and other kernels may touch the same bytes at the same time.
template <typename T>
using Bits = std::conditional_t<std::is_same_v<T, float>, std::uint32_t,
                                std::conditional_t<std::is_same_v<T, double>, std::uint64_t, T>>;

struct Load {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    std::uint64_t* d = warp.At(i.d);
    if (const std::uint64_t* a = warp.At(i.a); StepOf(warp, a) == std::uint64_t{0}) {
      const std::uint64_t address = a[0] + static_cast<std::uint64_t>(i.offset);
      if (!warp.Check(address, sizeof(T), false)) return;
      const std::uint64_t value = Put(__atomic_load_n(reinterpret_cast<Bits<T>*>(address), __ATOMIC_RELAXED));
      return ForLanes(warp, i, [=](unsigned) { return value; });
    }
    // d and a may be the same register: each lane's address is read before its value is written.
    ForAddresses<Bits<T>>(warp, i, false, [=](unsigned lane, Bits<T>* pointer) {
      d[lane] = Put(__atomic_load_n(pointer, __ATOMIC_RELAXED));
    });
  }
};
// The same of memory that somebody else writes, perhaps as the flag that other memory is ready.
struct LoadFresh {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    std::uint64_t* d = warp.At(i.d);
    std::uint64_t address = 0, value = 0;  // of the first active thread
    ForAddresses<Bits<T>>(warp, i, false, [&](unsigned lane, Bits<T>* pointer) {
      d[lane] = Put(__atomic_load_n(pointer, __ATOMIC_ACQUIRE));
      if (address != 0) return;
      address = reinterpret_cast<std::uint64_t>(pointer);
      value = d[lane];
    });
    warp.Polled(address, value);
  }
};
struct Store {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    const std::uint64_t* b = warp.At(i.b);
    ForAddresses<Bits<T>>(warp, i, true, [=](unsigned lane, Bits<T>* pointer) {
      __atomic_store_n(pointer, static_cast<Bits<T>>(b[lane]), __ATOMIC_RELAXED);
    });
  }
};
struct StoreRelease {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    const std::uint64_t* b = warp.At(i.b);
    ForAddresses<Bits<T>>(warp, i, true, [=](unsigned lane, Bits<T>* pointer) {
      __atomic_store_n(pointer, static_cast<Bits<T>>(b[lane]), __ATOMIC_RELEASE);
    });
  }
};
struct LoadParameter {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    T value;
    std::memcpy(&value, warp.parameters.data() + i.offset, sizeof value);
    const std::uint64_t bits = Put(value);
    ForLanes(warp, i, [=](unsigned) { return bits; });
  }
};

struct Exchange {
  template <typename T>
  static T Do(T, T b) {
    return b;
  }
};
template <typename Op>
struct Atomic {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    std::uint64_t* d = warp.At(i.d);
    const std::uint64_t* b = warp.At(i.b);
    ForAddresses<Bits<T>>(warp, i, true, [=](unsigned lane, Bits<T>* pointer) {
      Bits<T> old = __atomic_load_n(pointer, __ATOMIC_RELAXED);
      while (true) {
        const T next = Op::template Do<T>(Get<T>(Put(old)), Get<T>(b[lane]));
        if (__atomic_compare_exchange_n(pointer, &old, static_cast<Bits<T>>(Put(next)), false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
          break;
        }
      }
      d[lane] = Put(old);
    });
  }
};
struct CompareAndSwap {
  template <typename T>
  static void Run(Warp& warp, const Instruction& i) {
    std::uint64_t* d = warp.At(i.d);
    const std::uint64_t *b = warp.At(i.b), *c = warp.At(i.c);
    ForAddresses<T>(warp, i, true, [=](unsigned lane, T* pointer) {
      T expected = Get<T>(b[lane]);
      __atomic_compare_exchange_n(pointer, &expected, Get<T>(c[lane]), false, __ATOMIC_RELAXED,
                                  __ATOMIC_RELAXED);
      d[lane] = Put(expected);
    });
  }
};

// The clock of a thread that keeps reading it runs faster and faster, by 1/256 of the time that the thread
// has waited: a wait of a second takes a few thousand reads. It does not where the thread waits for memory as
// well, with the time as a limit.
void ReadTimer(Warp& warp, const Instruction& i) {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const auto now =
      static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
  if (warp.warp_began_ns == 0) warp.warp_began_ns = now;
  const std::uint64_t real = now - warp.warp_began_ns;
  warp.waited = true;
  std::uint64_t* d = warp.At(i.d);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((warp.active >> lane & 1) == 0) continue;
    std::uint64_t& elapsed = warp.elapsed_ns.lane[lane];
    if (elapsed < real) elapsed = real;
    d[lane] = warp.epoch_ns + elapsed;
    if (!warp.fresh) elapsed += elapsed / 256 < 32 ? 32 : elapsed / 256;
  }
}

void Nanosleep(Warp& warp, const Instruction& i) {
  const std::uint64_t* a = warp.At(i.a);
  if (warp.fresh) {
    std::uint32_t longest = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if ((warp.active >> lane & 1) != 0) longest = std::max(longest, static_cast<std::uint32_t>(a[lane]));
    }
    return warp.Pause(longest);
  }
  warp.waited = true;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((warp.active >> lane & 1) != 0) warp.elapsed_ns.lane[lane] += static_cast<std::uint32_t>(a[lane]);
  }
}

void Fence(Warp&, const Instruction&) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void Trap(Warp& warp, const Instruction&) { warp.fault = Fault::kTrap; }
void Nothing(Warp&, const Instruction&) {}

// The same function, compiled once more for processors with wider vectors: about twice as fast. For the types
// that addresses and data usually have, as it takes time to compile.
#if defined(__x86_64__)
template <Execute execute>
__attribute__((target("avx2"), flatten)) void Vectorised(Warp& warp, const Instruction& i) {
  execute(warp, i);
}
template <Execute execute>
Execute Best() {
  return __builtin_cpu_supports("avx2") ? Vectorised<execute> : execute;
}
#else
template <Execute execute>
Execute Best() {
  return execute;
}
#endif

template <typename Op>
Execute ForIntegers(Type type) {
  switch (type) {
    case Type::kU16:
      return Op::template Run<std::uint16_t>;
    case Type::kU32:
      return Best<Op::template Run<std::uint32_t>>();
    case Type::kU64:
      return Best<Op::template Run<std::uint64_t>>();
    case Type::kS16:
      return Op::template Run<std::int16_t>;
    case Type::kS32:
      return Op::template Run<std::int32_t>;
    case Type::kS64:
      return Op::template Run<std::int64_t>;
    default:
      return nullptr;
  }
}
template <typename Op>
Execute ForFloats(Type type) {
  if (type == Type::kF32) return Op::template Run<float>;
  if (type == Type::kF64) return Op::template Run<double>;
  return nullptr;
}
template <typename Op>
Execute ForNumbers(Type type) {
  const Execute found = ForIntegers<Op>(type);
  return found != nullptr ? found : ForFloats<Op>(type);
}
// Predicates are all ones or zero, so that the bitwise operations serve them.
template <typename Op>
Execute ForBits(Type type) {
  return type == Type::kPredicate ? Best<Op::template Run<std::uint64_t>>() : ForIntegers<Op>(type);
}
template <typename Op>
Execute ForNarrow(Type type) {
  return type == Type::kU64 || type == Type::kS64 ? nullptr : ForIntegers<Op>(type);
}
template <typename Op>
Execute ForMemory(Type type) {
  if (type == Type::kU8) return Op::template Run<std::uint8_t>;
  if (type == Type::kS8) return Op::template Run<std::int8_t>;
  return ForNumbers<Op>(type);
}

template <typename To, typename From>
Execute ConvertRounded(Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearest:
      return Convert<To, From, Rounding::kNearest>;
    case Rounding::kDown:
      return Convert<To, From, Rounding::kDown>;
    case Rounding::kUp:
      return Convert<To, From, Rounding::kUp>;
    default:
      return Convert<To, From, Rounding::kZero>;
  }
}
template <typename To>
Execute ConvertFrom(Type from, Rounding rounding) {
  switch (from) {
    case Type::kU8:
      return Convert<To, std::uint8_t, Rounding::kZero>;
    case Type::kU16:
      return Convert<To, std::uint16_t, Rounding::kZero>;
    case Type::kU32:
      return Best<Convert<To, std::uint32_t, Rounding::kZero>>();
    case Type::kU64:
      return Convert<To, std::uint64_t, Rounding::kZero>;
    case Type::kS8:
      return Convert<To, std::int8_t, Rounding::kZero>;
    case Type::kS16:
      return Convert<To, std::int16_t, Rounding::kZero>;
    case Type::kS32:
      return Convert<To, std::int32_t, Rounding::kZero>;
    case Type::kS64:
      return Convert<To, std::int64_t, Rounding::kZero>;
    case Type::kF32:
      return ConvertRounded<To, float>(rounding);
    case Type::kF64:
      return ConvertRounded<To, double>(rounding);
    case Type::kPredicate:
      break;
  }
  return nullptr;
}

}  // namespace

bool ParseType(std::string_view name, Type& type) {
  struct Row {
    std::string_view name;
    Type type;
  };
  static constexpr Row kRows[] = {{"u8", Type::kU8},   {"b8", Type::kU8},   {"u16", Type::kU16},
                                  {"b16", Type::kU16}, {"u32", Type::kU32}, {"b32", Type::kU32},
                                  {"u64", Type::kU64}, {"b64", Type::kU64}, {"s8", Type::kS8},
                                  {"s16", Type::kS16}, {"s32", Type::kS32}, {"s64", Type::kS64},
                                  {"f32", Type::kF32}, {"f64", Type::kF64}, {"pred", Type::kPredicate}};
  for (const Row& row : kRows) {
    if (row.name == name) {
      type = row.type;
      return true;
    }
  }
  return false;
}

Execute FindUnary(std::string_view operation, Type type) {
  if (operation == "mov")
    return type == Type::kPredicate ? Unary<Move>::Run<std::uint64_t> : ForNumbers<Unary<Move>>(type);
  if (operation == "not") return ForBits<Unary<Not>>(type);
  if (operation == "neg") return ForNumbers<Unary<Negate>>(type);
  if (operation == "abs") return ForNumbers<Unary<Absolute>>(type);
  if (operation == "sqrt") return ForFloats<Unary<SquareRoot>>(type);
  return nullptr;
}

Execute FindBinary(std::string_view operation, Type type) {
  if (operation == "add") return ForNumbers<Binary<Add>>(type);
  if (operation == "sub") return ForNumbers<Binary<Subtract>>(type);
  if (operation == "mul.lo") return ForIntegers<Binary<Multiply>>(type);
  if (operation == "mul.hi") return ForIntegers<Binary<MultiplyHigh>>(type);
  if (operation == "mul.wide") return ForNarrow<MultiplyWide>(type);
  if (operation == "mul") return ForFloats<Binary<Multiply>>(type);
  if (operation == "div") return ForNumbers<Binary<Divide>>(type);
  if (operation == "rem") return ForIntegers<Binary<Remainder>>(type);
  if (operation == "min") return ForNumbers<Binary<Minimum>>(type);
  if (operation == "max") return ForNumbers<Binary<Maximum>>(type);
  if (operation == "and") return ForBits<Binary<And>>(type);
  if (operation == "or") return ForBits<Binary<Or>>(type);
  if (operation == "xor") return ForBits<Binary<ExclusiveOr>>(type);
  if (operation == "shl") return ForIntegers<Shift<ShiftLeft>>(type);
  if (operation == "shr") return ForIntegers<Shift<ShiftRight>>(type);
  return nullptr;
}

Execute FindTernary(std::string_view operation, Type type) {
  if (operation == "mad.lo") return ForIntegers<MultiplyAdd>(type);
  if (operation == "mad.wide") return ForNarrow<MultiplyAddWide>(type);
  if (operation == "fma") return ForFloats<MultiplyAdd>(type);
  if (operation == "selp") return ForNumbers<Select>(type);
  return nullptr;
}

Execute FindCompare(std::string_view comparison, Type type) {
  if (comparison == "eq") return ForNumbers<Compare<Equal>>(type);
  if (comparison == "ne") return ForNumbers<Compare<NotEqual>>(type);
  if (comparison == "lt" || comparison == "lo") return ForNumbers<Compare<Less>>(type);
  if (comparison == "le" || comparison == "ls") return ForNumbers<Compare<LessOrEqual>>(type);
  if (comparison == "gt" || comparison == "hi") return ForNumbers<Compare<Greater>>(type);
  if (comparison == "ge" || comparison == "hs") return ForNumbers<Compare<GreaterOrEqual>>(type);
  return nullptr;
}

Execute FindConvert(Type to, Type from, Rounding rounding) {
  switch (to) {
    case Type::kU8:
      return ConvertFrom<std::uint8_t>(from, rounding);
    case Type::kU16:
      return ConvertFrom<std::uint16_t>(from, rounding);
    case Type::kU32:
      return ConvertFrom<std::uint32_t>(from, rounding);
    case Type::kU64:
      return ConvertFrom<std::uint64_t>(from, rounding);
    case Type::kS8:
      return ConvertFrom<std::int8_t>(from, rounding);
    case Type::kS16:
      return ConvertFrom<std::int16_t>(from, rounding);
    case Type::kS32:
      return ConvertFrom<std::int32_t>(from, rounding);
    case Type::kS64:
      return ConvertFrom<std::int64_t>(from, rounding);
    case Type::kF32:
      return ConvertFrom<float>(from, rounding);
    case Type::kF64:
      return ConvertFrom<double>(from, rounding);
    case Type::kPredicate:
      break;
  }
  return nullptr;
}

Execute FindLoad(Type type, bool fresh) { return fresh ? ForMemory<LoadFresh>(type) : ForMemory<Load>(type); }
Execute FindStore(Type type, bool release) {
  return release ? ForMemory<StoreRelease>(type) : ForMemory<Store>(type);
}
Execute FindLoadParameter(Type type) { return ForMemory<LoadParameter>(type); }

Execute FindAtomic(std::string_view operation, Type type) {
  if (type == Type::kU16 || type == Type::kS16) return nullptr;
  if (operation == "add") return ForNumbers<Atomic<Add>>(type);
  if (operation == "exch") return ForIntegers<Atomic<Exchange>>(type);
  if (operation == "min") return ForIntegers<Atomic<Minimum>>(type);
  if (operation == "max") return ForIntegers<Atomic<Maximum>>(type);
  if (operation == "and") return ForIntegers<Atomic<And>>(type);
  if (operation == "or") return ForIntegers<Atomic<Or>>(type);
  if (operation == "xor") return ForIntegers<Atomic<ExclusiveOr>>(type);
  if (operation == "cas") return ForIntegers<CompareAndSwap>(type);
  return nullptr;
}

Execute FindReadTimer() { return ReadTimer; }
Execute FindNanosleep() { return Nanosleep; }
Execute FindFence() { return Fence; }
Execute FindTrap() { return Trap; }
Execute FindNothing() { return Nothing; }

}  // namespace gpuman::sim::cuda::ptx
