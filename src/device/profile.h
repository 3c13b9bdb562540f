// Profiles: several desired settings under one name, for any device. Pure; values.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/desired_setting.h"

namespace gpuman::device {

struct Profile {
  std::string name;
  std::string summary;  // one sentence
  std::map<Setting, DesiredSetting> desired;
  bool built_in = false;
  friend bool operator==(const Profile&, const Profile&) = default;
};

// performance, benchmark, efficiency.
std::span<const Profile> BuiltInProfiles();

// A profile cannot change ECC: that needs a reset of the GPU.
bool MayBeInProfile(Setting setting);

// A name has letters, digits, '.', '_' and '-'.
bool IsProfileName(std::string_view name);

struct FittedProfile {
  Values values;
  std::vector<std::string> left_out;  // settings that this device does not have, as sentences
};

// The values of the profile on one device. Settings that the device does not have are left out. It is an
// error if a number is out of the device's range, or if the device has none of the settings.
base::Result<FittedProfile> FitProfile(const Profile& profile, const DeviceReading& reading);

}  // namespace gpuman::device
