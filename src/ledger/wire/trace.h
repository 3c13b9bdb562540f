// A trace of allocations: the file that a shim writes for its process, and `gpuman why --allocations` reads.
// docs/allocations.md describes it for users. The writer is a program of a user, so a reader believes
// nothing.
//
// The file is a TraceHead, then records. Each record begins with a RecordHead. A record that is not whole is
// the last one: the process was killed, or the disk was full. Numbers are of the machine's byte order; times
// are of CLOCK_MONOTONIC, in nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuman::ledger::wire {

// The directory for the files; the keeper makes it. Not set: nothing is traced.
inline constexpr char kTraceVariable[] = "GPUMAN_SHIM_TRACE";

inline constexpr std::uint64_t kTraceMagic = 0x45434152544d5047;  // "GPMTRACE"
inline constexpr std::uint32_t kTraceVersion = 1;

// Files are N.trace, N from 0.
inline constexpr unsigned kMaxTraces = 64;                                // of a job
inline constexpr std::uint64_t kMaxTraceBytes = std::uint64_t{16} << 20;  // of a file
inline constexpr std::uint32_t kMaxStacks = 1u << 14;                     // of a file
inline constexpr unsigned kMaxNativeFrames = 96;
inline constexpr unsigned kMaxPythonFrames = 64;
inline constexpr std::size_t kMaxTraceText = 1024;  // bytes of a name or a path

struct TraceHead {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t process;  // as the process itself sees its id
  std::uint64_t wall;     // when the file was made: CLOCK_REALTIME, in nanoseconds
  std::uint64_t monotonic;
  std::uint64_t mean;  // of one sample in so many bytes at first
  std::uint8_t reserved[24];
};

enum class RecordKind : std::uint32_t {
  kDevice = 1,     // TraceDevice
  kModule = 2,     // TraceModule, then the build id, then the path
  kCode = 3,       // TracePythonFunction, then the file, then the function's name
  kStack = 4,      // TraceStack, then addresses, then Python's frames; the innermost first
  kAllocated = 5,  // TraceAllocated
  kFreed = 6,      // TraceFreed
  kRefused = 7,    // TraceRefused
  kFull = 8,       // TraceFull; nothing follows
  kGone = 9,       // TraceProcessEnded
};

struct RecordHead {
  RecordKind kind;
  std::uint32_t bytes;  // of the record with its head and what pads it: a multiple of 8
};

// A device of the process. It comes before records that name it.
struct TraceDevice {
  std::uint32_t device;  // the number that other records name it by
  std::uint32_t reserved;
  std::uint8_t uuid[16];
};

inline constexpr std::uint32_t kInterpreter = 1;  // the module has CPython in it

struct TraceModule {
  std::uint64_t begin, end;  // where it is mapped
  std::uint64_t base;        // what is added to addresses of its file
  std::uint32_t flags;
  std::uint16_t build_id, path;  // bytes
};

// A function of Python. Its number is how many there were before it.
struct TracePythonFunction {
  std::uint16_t file, name;  // bytes, UTF-8
  std::uint32_t reserved;
};

struct PythonFrame {
  std::uint32_t code;
  std::int32_t line;  // 0 or less: not known
};

// Its number is how many stacks there were before it. An address is that behind the call.
struct TraceStack {
  std::uint32_t native, python;  // frames
};

// An allocation that was drawn: with the probability 1 - exp(-bytes / mean). `held`, here and below: what the
// process holds on the device then, drawn or not.
struct TraceAllocated {
  std::uint64_t at;
  std::uint64_t key;  // names the memory until it is freed
  std::uint64_t bytes;
  std::uint64_t mean;
  std::uint64_t held;  // with this one
  std::uint32_t stack;
  std::uint32_t device;
};

struct TraceFreed {
  std::uint64_t at;
  std::uint64_t key;
  std::uint64_t held;  // without it
};

struct TraceRefused {
  std::uint64_t at;
  std::uint64_t bytes;
  std::uint64_t held;
  std::uint32_t stack;
  std::uint32_t device;
};

struct TraceFull {
  std::uint64_t at;
};

// The process of another file has ended by this time. A process looks when its own trace begins: a process
// locks its file (flock) as long as it lives.
struct TraceProcessEnded {
  std::uint64_t at;
  std::uint32_t file;
  std::uint32_t reserved;
};

static_assert(sizeof(TraceHead) == 64 && sizeof(RecordHead) == 8 && sizeof(TraceDevice) == 24 &&
              sizeof(TraceModule) == 32 && sizeof(TracePythonFunction) == 8 && sizeof(PythonFrame) == 8 &&
              sizeof(TraceStack) == 8 && sizeof(TraceAllocated) == 48 && sizeof(TraceFreed) == 24 &&
              sizeof(TraceRefused) == 32 && sizeof(TraceFull) == 8 && sizeof(TraceProcessEnded) == 16);

}  // namespace gpuman::ledger::wire
