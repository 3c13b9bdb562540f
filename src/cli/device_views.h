// Settings of devices for people. Pure functions; text ended by a line end.
#pragma once

#include <string>

#include "api/device_types.h"
#include "cli/text.h"

namespace gpuman::cli {

// A table for each GPU; under it what is not as it is wanted, or waits for a reset.
std::string RenderDevices(const api::DeviceList& list, const TerminalStyle& style);
// What was done, or would be, one line a step.
std::string RenderDeviceReport(const api::DeviceReport& report, const TerminalStyle& style);
std::string RenderDeviceProfiles(const api::DeviceProfileList& list, const TerminalStyle& style);
std::string RenderDeviceProfile(const api::DeviceProfile& profile, const TerminalStyle& style);

}  // namespace gpuman::cli
