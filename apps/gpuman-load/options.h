// The options of the command line.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <variant>

#include "base/units.h"

namespace gpuman::load {

enum class Api { kMalloc, kAsync, kVmm, kManaged, kPitch, kArray };

// Who exchanges messages with whom in a step of --ranks (plan.h).
enum class Pattern { kDdp, kPipeline, kTensor, kRandom };
// How a rank reaches the memory of another: descriptors of virtual memory, legacy IPC, pages of the host, or
// the address itself (the ranks are threads of one process).
enum class Peer { kVmm, kIpc, kHost, kDirect };

// The word of the command line ("malloc").
const char* ToString(Api api);
const char* ToString(Pattern pattern);
const char* ToString(Peer peer);

struct Options {
  int device = 0;
  Api api = Api::kMalloc;
  std::optional<base::SizeSpec> alloc;  // in steps of `step`, `interval` apart
  std::optional<base::SizeSpec> step;   // empty: all at once
  std::optional<base::SizeSpec> jump;   // at once, after the hold
  bool jump_all = false;                // --jump without a size: hold first, then all of `alloc` at once
  base::Millis interval{0};
  base::Millis hold{0};
  base::Millis kernel_time{0};
  double duty = 1;                // share of the time in which a kernel runs, above 0, at most 1
  std::uint64_t iterations = 0;   // 0: as many as fit in `hold`
  std::filesystem::path until{};  // iterate until this file exists; empty: no such file
  bool verify = false;
  std::optional<std::uint64_t> flip_byte;  // change this byte of the first block before the check
  unsigned children = 0;
  bool daemonize = false;
  bool parent_exits = false;
  bool ignore_term = false;
  bool json = false;

  unsigned ranks = 0;    // 0: the processes, if there are several, do not need each other
  bool threads = false;  // the ranks are threads of one process
  Pattern pattern = Pattern::kDdp;
  Peer peer = Peer::kVmm;
  base::Millis work{0};  // of the device in each step
  unsigned buckets = 4;  // blocks that a rank sends in each step
  unsigned ahead = 1;    // steps that a rank queues before it waits for the first
  bool graph = false;
  bool opposite = false;
  base::Millis think{0};  // the longest pause of the program in a step
  std::uint64_t seed = 0;
};

// The options; or the exit status, if ParseOptions has printed help or a usage error.
std::variant<Options, int> ParseOptions(int argc, char** argv);

}  // namespace gpuman::load
