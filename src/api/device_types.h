// Settings of GPUs, as the API has them. Values; docs/devices.md says what the settings are and cost.
//
// Values are words: "on", "exclusive-process", "250W", "1200,1400" (MHz), "unlocked"; a request may also have
// "60%", "min", "max", "default".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"

namespace gpuman::api {

// The least and the most that the device accepts.
struct SettingRange {
  double least = 0, most = 0;
};

struct DeviceSetting {
  std::string name;                     // persistence compute_mode power memory_clocks graphics_clocks ecc
  std::optional<bool> supported;        // null: not known before it is tried
  std::optional<std::string> why;       // why it is not supported, or not known
  std::optional<std::string> now;       // null: not known; the driver does not tell locked clocks
  std::optional<std::string> pending;   // ECC: from the next reset on
  std::optional<std::string> wanted;    // null: nothing is wanted
  std::optional<std::string> because;   // why it is wanted: "asked for", "profile benchmark", …
  std::optional<std::string> usual;     // "default" in JSON
  std::optional<SettingRange> range;    // W, MHz
  std::vector<std::string> choices;     // other possible values: words, or MHz
  bool drift = false;                   // it is not as wanted
  std::optional<base::WallTime> since;  // ECC: since when the wanted value is in effect
};

struct DeviceProfileInForce {
  std::string name;
  std::optional<base::WallTime> until;  // null: until it is removed, or its job ends
  std::optional<std::int64_t> job;
};

struct DeviceView {
  int index = 0;
  std::string uuid;
  std::string name;
  std::optional<std::string> problem;           // why its settings could not be read
  std::optional<int> graphics_mhz, memory_mhz;  // at this moment
  std::vector<DeviceProfileInForce> profiles;
  std::vector<DeviceSetting> settings;
};

// GET /v1/devices
struct DeviceList {
  std::vector<DeviceView> devices;
};

// POST /v1/devices/settings
struct DeviceSettingsRequest {
  std::vector<std::string> gpus;           // index, UUID or beginning of a UUID; empty: every GPU
  std::map<std::string, std::string> set;  // by name of the setting
  std::vector<std::string> reset;  // names: back to the device's default, and gpuman wants no value any more
  std::optional<std::string> clear_ecc;  // error counters: volatile or aggregate
  bool dry_run = false;
};

// POST /v1/devices/profile
struct DeviceProfileRequest {
  std::vector<std::string> gpus;
  std::optional<std::string> name;       // null: the profile in force is removed
  std::optional<base::Millis> duration;  // "for" in JSON; after it the daemon removes the profile
  bool dry_run = false;
};

struct DeviceStep {
  int index = 0;
  std::string uuid;
  std::string setting;
  std::optional<std::string> from;  // null: not known
  std::string to;
};

struct DeviceSettingsResult {
  bool dry_run = false;
  std::vector<DeviceStep> steps;  // done; in a dry run those that would be done
  std::vector<std::string> notes;
};

struct DeviceProfile {
  std::string name;
  std::string summary;
  bool built_in = false;
  std::map<std::string, std::string> settings;
};

// GET /v1/devices/profiles
struct DeviceProfileList {
  std::vector<DeviceProfile> profiles;
};

}  // namespace gpuman::api
