#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/config/config.h"

namespace gpuman::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

tl::expected<Config, std::vector<ConfigProblem>> ParseDevice(const std::string& text) {
  return ParseConfig(text, "gpumand.toml", {});
}

std::string ProblemOf(const std::string& text) {
  const auto config = ParseDevice(text);
  return config ? "" : Describe(config.error().front());
}

TEST(DeviceConfig, ProfilesAreReadInAnyWayThatTheirValuesCanBeWritten) {
  const auto config = ParseDevice(R"(
[device]
mend_drift = true
check = "1m"
[device.profiles.night]
summary = "quiet"
persistence = true
power = 250
graphics_clocks = "50%,max"
[device.profiles.day-2]
power = "max"
compute_mode = "exclusive-process"
)");
  ASSERT_TRUE(config) << Describe(config.error().front());
  EXPECT_TRUE(config->device.mend_drift);
  EXPECT_EQ(config->device.check, base::Millis(60'000));
  ASSERT_THAT(config->device.profiles, SizeIs(2));
  const auto& day = config->device.profiles[0];
  const auto& night = config->device.profiles[1];
  EXPECT_EQ(day.name, "day-2");
  EXPECT_THAT(day.desired, SizeIs(2));
  EXPECT_EQ(night.summary, "quiet");
  EXPECT_FALSE(night.built_in);
  EXPECT_EQ(night.desired.at(device::Setting::kPersistence).text, "on");
  EXPECT_EQ(night.desired.at(device::Setting::kPower).text, "250");
}

TEST(DeviceConfig, AMistakeIsNamedWithLineAndKey) {
  EXPECT_THAT(
      ProblemOf("[device.profiles.night]\nclock = 1200\n"),
      HasSubstr("gpumand.toml:2: device.profiles.night.clock: there is no such key; there are summary, "
                "persistence"));
  EXPECT_THAT(ProblemOf("[device.profiles.night]\necc = true\n"),
              HasSubstr("device.profiles.night.ecc: there is no"));
  EXPECT_THAT(ProblemOf("[device.profiles.night]\npower = \"a lot\"\n"),
              HasSubstr("device.profiles.night.power: 'a lot' is no power"));
  EXPECT_THAT(ProblemOf("[device.profiles.night]\npower = [1]\n"),
              HasSubstr("device.profiles.night.power: is neither"));
  EXPECT_THAT(ProblemOf("[device.profiles.night]\n"), HasSubstr("sets nothing"));
  EXPECT_THAT(ProblemOf("[device.profiles.\"a b\"]\npower = 250\n"), HasSubstr("is no name of a profile"));
  EXPECT_THAT(ProblemOf("[device]\nprofiles = 3\n"), HasSubstr("[device.profiles.NAME]"));
  EXPECT_THAT(ProblemOf("[device.profiles]\nnight = 3\n"),
              HasSubstr("is written as [device.profiles.night]"));
  EXPECT_THAT(ProblemOf("[device]\nmend = true\n"), HasSubstr("device.mend"));
}

}  // namespace
}  // namespace gpuman::daemon
