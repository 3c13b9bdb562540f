#include "device/desired_setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/test_reading.h"

namespace gpuman::device {
namespace {

using ::testing::HasSubstr;

// The canonical text of `text` on the device, or the error's message.
std::string On(const DeviceReading& reading, Setting setting, const std::string& text) {
  const auto wanted = ParseDesiredSetting(setting, text);
  if (!wanted) return "refused: " + wanted.error().message;
  const auto value = Resolve(*wanted, reading);
  return value ? Format(setting, *value) : "error: " + value.error().message;
}

struct Case {
  Setting setting;
  std::string text, expected;
};

TEST(DesiredSettingTest, IsAValueOnADeviceThatCanHaveIt) {
  const std::vector<Case> cases{
      {Setting::kPersistence, "on", "on"},
      {Setting::kEcc, "off", "off"},
      {Setting::kComputeMode, "exclusive-process", "exclusive-process"},
      {Setting::kComputeMode, "prohibited", "prohibited"},
      {Setting::kPower, "250W", "250W"},
      {Setting::kPower, "250", "250W"},
      {Setting::kPower, "250.5", "250.5W"},
      {Setting::kPower, "min", "200W"},
      {Setting::kPower, "max", "700W"},
      {Setting::kPower, "default", "700W"},
      {Setting::kPower, "60%", "420W"},
      {Setting::kPower, "10%", "200W"},
      {Setting::kMemoryClocks, "max", "3201,3201"},
      {Setting::kMemoryClocks, "2201", "2201,2201"},
      {Setting::kGraphicsClocks, "1200", "1200,1200"},
      {Setting::kGraphicsClocks, "345,1980", "345,1980"},
      {Setting::kGraphicsClocks, "75%", "1485,1485"},
      {Setting::kGraphicsClocks, "50%,max", "990,1980"},
      {Setting::kGraphicsClocks, "1%", "345,345"},
      {Setting::kGraphicsClocks, "unlocked", "unlocked"},
  };
  for (const auto& [setting, text, expected] : cases)
    EXPECT_EQ(On(H200(), setting, text), expected) << ToString(setting) << " " << text;
}

TEST(DesiredSettingTest, OutOfRangeNamesTheRange) {
  EXPECT_EQ(On(H200(), Setting::kPower, "900W"), "error: 900W is out of range: this GPU takes 200W to 700W");
  EXPECT_THAT(On(H200(), Setting::kPower, "199"), HasSubstr("200W to 700W"));
  EXPECT_THAT(On(H200(), Setting::kGraphicsClocks, "1201"),
              HasSubstr("from 345 to 1980 MHz; next to it are 1200 and 1215"));
  EXPECT_THAT(On(H200(), Setting::kGraphicsClocks, "3000"), HasSubstr("from 345 to 1980 MHz"));
  EXPECT_THAT(On(H200(), Setting::kMemoryClocks, "3200"), HasSubstr("next to it are 2201 and 3201"));
}

TEST(DesiredSettingTest, GraphicsClocksHaveToGoWithTheMemoryClock) {
  const auto wanted = ParseDesiredSetting(Setting::kGraphicsClocks, "1980");
  ASSERT_TRUE(wanted);
  EXPECT_TRUE(Resolve(*wanted, H200(), 3201));
  const auto refused = Resolve(*wanted, H200(), 2201);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("with memory at 2201 MHz"));
  const auto memory = Resolve(*ParseDesiredSetting(Setting::kMemoryClocks, "1000"), H200(), 2201);
  ASSERT_FALSE(memory);
  EXPECT_THAT(memory.error().message, HasSubstr("none of this GPU's memory clocks, which are 2 from"));
}

TEST(DesiredSettingTest, ASettingThatTheDeviceLacksIsNotSupported) {
  for (const auto setting : {Setting::kEcc, Setting::kPower}) {
    const auto wanted = ParseDesiredSetting(setting, setting == Setting::kEcc ? "on" : "100W");
    const auto value = Resolve(*wanted, Laptop());
    ASSERT_FALSE(value);
    EXPECT_EQ(value.error().code, base::ErrorCode::kNotSupported);
    EXPECT_THAT(value.error().message, HasSubstr("this kind of GPU does not have it"));
  }
}

TEST(DesiredSettingTest, AClockThatCannotBeCheckedIsTriedButNoShareOfItIs) {
  EXPECT_EQ(On(Laptop(), Setting::kGraphicsClocks, "1201"), "1201,1201");
  EXPECT_THAT(On(Laptop(), Setting::kGraphicsClocks, "75%"), HasSubstr("does not tell"));
}

TEST(DesiredSettingTest, AnInvalidValueIsRefused) {
  const std::vector<std::pair<Setting, std::string>> cases{{Setting::kPersistence, "yes"},
                                                           {Setting::kPersistence, ""},
                                                           {Setting::kComputeMode, "exclusive"},
                                                           {Setting::kPower, "0W"},
                                                           {Setting::kPower, "-5"},
                                                           {Setting::kPower, "250kW"},
                                                           {Setting::kPower, "101%"},
                                                           {Setting::kPower, "0%"},
                                                           {Setting::kPower, "nan"},
                                                           {Setting::kPower, "1e9"},
                                                           {Setting::kGraphicsClocks, "0"},
                                                           {Setting::kGraphicsClocks, "1400,1200"},
                                                           {Setting::kGraphicsClocks, "1,2,3"},
                                                           {Setting::kGraphicsClocks, ","},
                                                           {Setting::kGraphicsClocks, "fast"},
                                                           {Setting::kGraphicsClocks, "80%,20%"},
                                                           {Setting::kMemoryClocks, "99999999999"}};
  for (const auto& [setting, text] : cases)
    EXPECT_THAT(On(H200(), setting, text), HasSubstr("refused: ")) << ToString(setting) << " " << text;
}

TEST(DesiredSettingTest, ALowerEndAboveTheHigherOneIsRefusedOnTheDevice) {
  EXPECT_THAT(On(H200(), Setting::kGraphicsClocks, "1500,50%"), HasSubstr("1500 to 990 MHz"));
}

}  // namespace
}  // namespace gpuman::device
