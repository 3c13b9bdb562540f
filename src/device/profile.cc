#include "device/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace gpuman::device {
namespace {

constexpr SettingAmount kMax{SettingAmount::Kind::kMax};
constexpr SettingAmount Percent(double number) { return {SettingAmount::Kind::kPercent, number}; }

std::map<Setting, DesiredSetting> BySetting(std::vector<DesiredSetting> list) {
  std::map<Setting, DesiredSetting> desired;
  for (auto& wanted : list) desired.emplace(wanted.setting, std::move(wanted));
  return desired;
}

const DesiredSetting kPersistent{Setting::kPersistence, "on", {}, {SettingAmount::Kind::kNumber, 1}};

std::array<Profile, 3> MakeBuiltIn() {
  return {{{"performance", "as fast as the device can: highest power limit, clocks left to the driver",
            BySetting({kPersistent,
                       {Setting::kPower, "max", {}, kMax},
                       {Setting::kMemoryClocks, "unlocked", {}, {}},
                       {Setting::kGraphicsClocks, "unlocked", {}, {}}}),
            true},
           // A clock that the device can hold under any load: near its base clock, well below the boost
           // clock, which temperature and power reduce.
           {"benchmark", "the same speed every time: memory at its highest clock, graphics locked at 75%",
            BySetting({kPersistent,
                       {Setting::kPower, "max", {}, kMax},
                       {Setting::kMemoryClocks, "max", kMax, kMax},
                       {Setting::kGraphicsClocks, "75%", Percent(75), Percent(75)}}),
            true},
           {"efficiency", "less power for somewhat less speed: power limit at 60%, clocks left to the driver",
            BySetting({kPersistent,
                       {Setting::kPower, "60%", {}, Percent(60)},
                       {Setting::kMemoryClocks, "unlocked", {}, {}},
                       {Setting::kGraphicsClocks, "unlocked", {}, {}}}),
            true}}};
}

}  // namespace

std::span<const Profile> BuiltInProfiles() {
  static const std::array<Profile, 3> profiles = MakeBuiltIn();
  return profiles;
}

bool MayBeInProfile(Setting setting) { return setting != Setting::kEcc; }

bool IsProfileName(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= 64 && name.find_first_not_of(kAllowed) == std::string_view::npos;
}

base::Result<FittedProfile> FitProfile(const Profile& profile, const DeviceReading& reading) {
  FittedProfile fitted;
  std::optional<std::uint32_t> memory_mhz;
  for (const auto& [setting, wanted] : profile.desired) {  // memory clocks before graphics clocks
    auto value = Resolve(wanted, reading, memory_mhz);
    if (!value && value.error().code == base::ErrorCode::kNotSupported) {
      fitted.left_out.push_back(value.error().message);
      continue;
    }
    if (!value) return base::Fail(std::move(value.error()).In(fmt::format("profile {}", profile.name)));
    if (setting == Setting::kMemoryClocks && *value != kUnlocked) memory_mhz = value->high;
    fitted.values[setting] = *value;
  }
  if (!fitted.values.empty()) return fitted;
  return base::Fail(base::ErrorCode::kNotSupported,
                    fmt::format("this GPU has nothing that profile {} sets", profile.name));
}

}  // namespace gpuman::device
