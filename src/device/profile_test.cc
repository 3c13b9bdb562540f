#include "device/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/test_reading.h"

namespace gpuman::device {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

const Profile& BuiltIn(std::string_view name) {
  for (const auto& profile : BuiltInProfiles())
    if (profile.name == name) return profile;
  throw std::out_of_range(std::string(name));
}

TEST(ProfileTest, BuiltInOnesAreInUnitsOfTheDevice) {
  const auto benchmark = FitProfile(BuiltIn("benchmark"), H200());
  ASSERT_TRUE(benchmark) << benchmark.error().message;
  EXPECT_EQ(benchmark->values, (Values{{Setting::kPersistence, Switch(true)},
                                       {Setting::kPower, Milliwatts(700'000)},
                                       {Setting::kMemoryClocks, Clocks(3201, 3201)},
                                       {Setting::kGraphicsClocks, Clocks(1485, 1485)}}));
  const auto efficiency = FitProfile(BuiltIn("efficiency"), H200());
  ASSERT_TRUE(efficiency);
  EXPECT_EQ(efficiency->values.at(Setting::kPower), Milliwatts(420'000));
  const auto performance = FitProfile(BuiltIn("performance"), H200());
  ASSERT_TRUE(performance);
  EXPECT_EQ(performance->values.at(Setting::kPower), Milliwatts(700'000));
  EXPECT_EQ(performance->values.at(Setting::kGraphicsClocks), kUnlocked);
}

TEST(ProfileTest, EachBuiltInProfileCanBeWrittenInAConfiguration) {
  for (const auto& profile : BuiltInProfiles()) {
    EXPECT_TRUE(IsProfileName(profile.name));
    for (const auto& [setting, wanted] : profile.desired) {
      EXPECT_TRUE(MayBeInProfile(setting));
      const auto written = ParseDesiredSetting(setting, wanted.text);
      ASSERT_TRUE(written) << written.error().message;
      EXPECT_EQ(*written, wanted) << profile.name << " " << ToString(setting);
    }
  }
}

TEST(ProfileTest, ASettingThatTheDeviceLacksIsLeftOutAndNamed) {
  const auto fitted = FitProfile(BuiltIn("efficiency"), Laptop());
  ASSERT_TRUE(fitted);
  EXPECT_FALSE(fitted->values.contains(Setting::kPower));
  EXPECT_THAT(fitted->left_out, SizeIs(1));
  EXPECT_THAT(fitted->left_out[0], HasSubstr("power limit"));
}

TEST(ProfileTest, AProfileOfNothingThatTheDeviceHasIsAnError) {
  Profile profile{"cap", "", {{Setting::kPower, *ParseDesiredSetting(Setting::kPower, "100W")}}, false};
  EXPECT_EQ(FitProfile(profile, Laptop()).error().code, base::ErrorCode::kNotSupported);
}

TEST(ProfileTest, ANumberOutOfRangeIsAnErrorThatNamesProfileAndRange) {
  Profile profile{"cap", "", {{Setting::kPower, *ParseDesiredSetting(Setting::kPower, "100W")}}, false};
  const auto fitted = FitProfile(profile, H200());
  ASSERT_FALSE(fitted);
  EXPECT_THAT(fitted.error().message, HasSubstr("profile cap"));
  EXPECT_THAT(fitted.error().message, HasSubstr("200W to 700W"));
}

TEST(ProfileTest, NamesAreWordsOfACommandLine) {
  EXPECT_TRUE(IsProfileName("night-2.a_B"));
  for (const auto* name : {"", "a b", "a/b", "ä"}) EXPECT_FALSE(IsProfileName(name)) << name;
  EXPECT_FALSE(IsProfileName(std::string(65, 'a')));
}

}  // namespace
}  // namespace gpuman::device
