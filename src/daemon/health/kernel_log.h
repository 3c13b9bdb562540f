// The Xids of the kernel's log, for the time before the daemon began to listen to the driver.
//
// One look at what the log holds now; it costs milliseconds. Lines that tell of no Xid are passed over.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "health/xid_log.h"

namespace gpuman::daemon {

struct KernelXid {
  health::LoggedXid logged;
  std::chrono::microseconds since_boot{};
  friend bool operator==(const KernelXid&, const KernelXid&) = default;
};

// `path`: /dev/kmsg, or a file of the same lines ("6,1187,98765432,-;NVRM: Xid …"). kPermissionDenied where
// the kernel shows its log to administrators alone.
base::Result<std::vector<KernelXid>> ReadKernelXids(const std::filesystem::path& path);

// The lines of a log, without reading one. Pure.
std::vector<KernelXid> KernelXidsOf(std::string_view text);

}  // namespace gpuman::daemon
