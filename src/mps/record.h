// The stored state of a GPU's MPS, for a restart of the daemon.
//
//   {"boot":"6c3f…","changed":false,"memory":8589934592,"pid":4711,"since":"2026-…","start_time":12345,
//    "threads":50.0,"v":1}
//
// May be missing: "changed" (false), "protocol" (2), "time_slices" (false).
//
// Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/process.h"
#include "base/result.h"
#include "mps/limits.h"

namespace gpuman::mps {

struct GpuRecord {
  base::ProcessId control{};  // pid 0: the control daemon is wanted and does not run
  std::string boot{};         // pids have a meaning only within one boot
  Limits limits{};
  bool changed = false;  // the limits have changed since the start: older clients may have others
  base::WallTime since{};
  int protocol = 2;          // of the control daemon
  bool time_slices = false;  // whether servers there can have parts of the GPU's time
  friend bool operator==(const GpuRecord&, const GpuRecord&) = default;
};

std::string SerializeRecord(const GpuRecord& record);
// kCorrupt: SerializeRecord did not write `text`.
base::Result<GpuRecord> ParseRecord(std::string_view text);

}  // namespace gpuman::mps
