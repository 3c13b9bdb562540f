// A trace may hold any bytes. What is read from it can be replayed, shown and written as a profile.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trace/pprof.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::trace;  // NOLINT(google-build-using-namespace)
  auto trace = ParseTrace({reinterpret_cast<const char*>(data), size});
  if (!trace) return 0;
  const std::vector<ProcessTrace> processes{std::move(*trace)};
  const auto gpus = Replay(processes);
  const NameFrame name = [](const MappedBinary&, std::uint64_t, Frame&) {};
  for (const GpuTraceSummary& gpu : gpus) {
    if (!std::isfinite(gpu.peak.bytes) || gpu.peak.bytes < 0) std::abort();
    if (gpu.refusal && gpu.refusal->then.bytes > gpu.peak.bytes * 1.0001 + 1) std::abort();
    for (const AllocationSite& place : PlacesOf(processes, gpu.peak, name))
      if (place.text.empty() || place.stacks.empty()) std::abort();
  }
  if (WritePprof(processes, gpus, name).empty()) std::abort();
  return 0;
}
