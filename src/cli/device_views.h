// Renders settings of GPUs for people. Pure functions; each text ends with a line end.
#pragma once

#include <string>

#include "api/device_types.h"
#include "cli/text.h"

namespace gpuman::cli {

// A table for each GPU; below it the settings that differ from what is wanted or wait for a reset.
std::string RenderDevices(const api::DeviceList& list, const TerminalStyle& style);
// Shows what the daemon did, or would do, one line a step.
std::string RenderDeviceReport(const api::DeviceSettingsResult& report, const TerminalStyle& style);
std::string RenderDeviceProfiles(const api::DeviceProfileList& list, const TerminalStyle& style);
std::string RenderDeviceProfile(const api::DeviceProfile& profile, const TerminalStyle& style);

}  // namespace gpuman::cli
