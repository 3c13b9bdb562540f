// The kernel's log, as /dev/kmsg gives it: a line for each record, followed by lines that begin with a space.
//
//   4,1187,98765432,-;Out of memory: Killed process 1234 (python3) total-vm:…
//
// The first number is 8 * facility + level, the third the time since boot in microseconds, by a clock that
// counts as CLOCK_MONOTONIC does, but that nobody corrects.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::base {

struct KernelLogLine {
  bool from_kernel = false;  // false: a program wrote it; the kernel lets no program say otherwise
  std::chrono::microseconds since_boot{};
  std::string_view message;  // points into the line
};

// nullopt: the line begins no record. Pure.
std::optional<KernelLogLine> ParseKernelLogLine(std::string_view line);

// Reads each record once, the oldest first. Never waits. Not thread-safe.
class KernelLog {
 public:
  // `path`: /dev/kmsg, or a file of the same lines. kPermissionDenied where the kernel shows its log only to
  // administrators.
  static Result<KernelLog> Open(const std::filesystem::path& path);

  // The records that were not read yet, about `limit` bytes at most; the next call continues there. Records
  // that the kernel has overwritten meanwhile are missing. A record takes about a microsecond.
  Result<std::string> ReadMore(std::size_t limit);

 private:
  KernelLog(Fd log, std::filesystem::path path) : log_(std::move(log)), path_(std::move(path)) {}

  Fd log_;
  std::filesystem::path path_;
};

}  // namespace gpuman::base
