// [device] and [device.profiles.NAME] of the configuration.
#pragma once

namespace gpuman::daemon {

class TomlReader;
struct Config;

void ReadDevice(TomlReader& in, Config& config);

}  // namespace gpuman::daemon
