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

// Letters, digits, '.', '_' and '-'.
bool IsProfileName(std::string_view name);

struct Fitted {
  Values values;
  std::vector<std::string> left_out;  // what this device cannot, as sentences
};

// What the profile is on one device. What the device has not is left out; a number that is out of its range,
// or a device that has nothing of it, is an error.
base::Result<Fitted> FitProfile(const Profile& profile, const Reading& reading);

}  // namespace gpuman::device
