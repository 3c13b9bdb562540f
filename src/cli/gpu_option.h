// --gpu and the argument GPU of commands about GPUs, with the same names and help in each command.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/take.h"

namespace gpuman::cli {

// `usual`: the GPUs that the command uses if the option is not given. `gpus` must live as long as the option.
inline Option GpuOption(std::vector<std::string>& gpus, std::string_view usual = "all") {
  return {"-g,--gpu", kGpuValue,
          fmt::format("Only these GPUs, by index or UUID; repeat or use commas (default: {})", usual),
          take::List(gpus)};
}

// One GPU at least, up to `most`.
inline Argument GpuArgument(std::size_t most = 1) {
  return {.value = kGpuValue, .most = most, .help = "Index, UUID, or the beginning of a UUID"};
}
// One GPU, or all.
inline Argument GpuOrAll() {
  Argument gpu = GpuArgument();
  gpu.least = 0;
  gpu.help += " (default: all)";
  return gpu;
}

}  // namespace gpuman::cli
