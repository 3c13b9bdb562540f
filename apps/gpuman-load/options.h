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

// The word of the command line ("malloc").
const char* ToString(Api api);

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
};

// The options; or the exit status, if ParseOptions has printed help or a usage error.
std::variant<Options, int> ParseOptions(int argc, char** argv);

}  // namespace gpuman::load
