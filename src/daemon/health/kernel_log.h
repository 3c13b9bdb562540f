// Reads Xids from the kernel's log, for the time before the daemon began to listen to the driver.
//
// Each call reads once what the log holds now, which takes milliseconds. Lines without an Xid are skipped.
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
// the kernel shows its log only to administrators.
base::Result<std::vector<KernelXid>> ReadKernelXids(const std::filesystem::path& path);

// The Xids in the text of a log. Pure.
std::vector<KernelXid> KernelXidsOf(std::string_view text);

}  // namespace gpuman::daemon
