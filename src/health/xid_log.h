// Reads Xids from the kernel's log, for times in which the daemon did not receive the driver's events. Pure.
//
//   NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace gpuman::health {

struct LoggedXid {
  std::string pci;  // "0000:3b:00.0": domain, bus, device, function
  unsigned xid = 0;
  std::optional<pid_t> pid{};  // of the program, in the host's namespace; nullopt: '<unknown>'
  std::string text{};          // the rest of the line
  friend bool operator==(const LoggedXid&, const LoggedXid&) = default;
};

// The Xid of a line; nullopt: the line has none. Text before "NVRM" is skipped.
std::optional<LoggedXid> ParseXidLine(std::string_view line);

// Whether NVML's bus id ("00000000:3B:00.0") names the device of the log ("0000:3b:00.0").
bool IsSameDevice(std::string_view nvml_bus_id, std::string_view logged);

}  // namespace gpuman::health
