// How far apart the marks of a stream are (shim/gate/stream_gates.h). Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpuman::shim {

// A mark costs the program and the GPU about a microsecond. A launch of 20 us is one of many: then marks are
// further apart. While the program does not run ahead of the GPU, nothing tells how long its next launches
// take: then only a few of them go without a mark.
constexpr std::uint32_t kMaxMarkStride = 16, kMaxMarkStrideNotAhead = 4;
// With so many marks to come, the program runs ahead of the GPU. With one, the GPU may be about to reach it.
constexpr std::uint32_t kMarksAhead = 2;
// A program that waits for the GPU again and again is ahead of it in some samples only; it counts as ahead
// for so many samples.
constexpr std::uint32_t kSamplesAhead = 2;

// What the service thread reads of a stream, again and again.
struct StreamSample {
  std::uint32_t marks = 0;  // that the GPU has reached since the sample before
  std::uint64_t time = 0;   // ns, since the sample before
  bool is_ahead = false;    // whether the program runs ahead of the GPU
  bool was_ahead = false;   // in one of the samples before
};

// The stride of a launch: each so many there is a mark. Before the service thread has seen how long the work
// is with which a program runs ahead, each launch gets one.
constexpr std::uint32_t StrideNow(std::uint32_t stride, std::uint32_t marks_to_come, bool was_ahead) {
  return marks_to_come >= kMarksAhead && !was_ahead ? 1 : stride;
}

// The stride after a sample. Work between two marks takes no longer than the time between the GPU's reaching
// them, and shall take about a tenth of `pace` (ns).
constexpr std::uint32_t NextStride(std::uint32_t stride, const StreamSample& sample, std::uint64_t pace) {
  if (sample.marks == 0 || (sample.is_ahead && !sample.was_ahead)) return 1;  // how long it takes shows later
  const bool ahead = sample.is_ahead || sample.was_ahead;
  const std::uint32_t most = ahead ? kMaxMarkStride : kMaxMarkStrideNotAhead;
  const std::uint64_t each = sample.time / sample.marks;
  // A program that does not run ahead waits for its own calls, and part of the time is theirs.
  if (each < pace / (sample.is_ahead ? 16 : 8)) return std::min(stride * 2, most);
  if (each > pace / 4 && stride > 1) return std::min(stride / 2, most);
  return std::min(stride, most);
}

}  // namespace gpuman::shim
