// Reads traces of allocations, which shims write (ledger/wire/trace.h). The file is a user's: every number is
// checked, and what is kept has a bound. Pure but for ReadTraces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gpuman::trace {

struct MappedBinary {
  std::uint64_t begin = 0, end = 0;  // where it was mapped
  std::uint64_t base = 0;            // what was added to the addresses of its file
  bool interpreter = false;          // it has CPython in it
  std::string build_id;              // bytes; empty: it has none
  std::string path;                  // empty: the program itself
};

struct PythonFunction {
  std::string file, name;
};

struct PythonLine {
  std::uint32_t function = 0;  // index
  int line = 0;                // 0: not known
};

// The innermost frame first.
struct CallStack {
  std::vector<std::uint64_t> native;  // return addresses
  std::vector<PythonLine> python;
};

struct TraceEvent {
  enum class Kind : std::uint8_t { kAllocated, kFreed, kRefused, kGone };
  Kind kind = Kind::kAllocated;
  std::uint16_t gpu = 0;    // index of ProcessTrace::gpus; not of a free or an end
  std::uint32_t stack = 0;  // index; not of a free or an end
  std::uint64_t at = 0;     // nanoseconds of CLOCK_MONOTONIC
  std::uint64_t key = 0;    // of an end: the number of the file of a process that has ended by then
  std::uint64_t bytes = 0;  // of an allocation or a refusal
  std::uint64_t held = 0;   // by the process on that device then; not of an end
  double weight = 0;        // of an allocation: it stands for so many of its kind
};

enum class TraceEnd {
  kWhole,
  kFull,  // the file, or a table of the process, was full at `ended`
  kTorn,  // the last record is not whole: the process was killed, or the disk was full
};

struct ProcessTrace {
  unsigned number = 0;  // of its file
  std::uint32_t pid = 0;
  std::uint64_t wall = 0, monotonic = 0;  // of its begin, in nanoseconds
  std::vector<std::string> gpus;          // UUIDs
  std::vector<MappedBinary> modules;
  std::vector<PythonFunction> functions;
  std::vector<CallStack> stacks;
  std::vector<TraceEvent> events;  // by time
  TraceEnd end = TraceEnd::kWhole;

  base::WallTime WallOf(std::uint64_t at) const;
};

// kCorrupt: it is no trace, or a record in it makes no sense.
base::Result<ProcessTrace> ParseTrace(std::string_view bytes);

struct JobTraces {
  std::vector<ProcessTrace> processes;
  std::vector<std::string> notes;  // what could not be read, as sentences
};

// Reads the traces in the directory of a job, those of other users as well; links and what is no file are
// passed over. kPermissionDenied: the caller may not look into it.
base::Result<JobTraces> ReadTraces(const std::filesystem::path& directory);

}  // namespace gpuman::trace
