#include "cli/device_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace gpuman::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const TerminalStyle kPlain{};

api::DeviceSetting Setting(const std::string& name) {
  api::DeviceSetting setting;
  setting.name = name;
  setting.supported = true;
  return setting;
}

api::DeviceList One(std::vector<api::DeviceSetting> settings) {
  api::DeviceView device;
  device.name = "NVIDIA H200";
  device.graphics_mhz = 1980;
  device.settings = std::move(settings);
  return {{device}};
}

TEST(DeviceViews, ATableHasWhatIsAndWhatIsWanted) {
  auto power = Setting("power");
  power.now = "700W";
  power.wanted = "250W";
  power.because = "asked for";
  power.usual = "700W";
  power.range = api::SettingRange{200, 700};
  power.drift = true;
  const auto text = RenderDevices(One({power}), kPlain);
  EXPECT_THAT(text, HasSubstr("GPU 0  NVIDIA H200\n"));
  EXPECT_THAT(text, HasSubstr("power    700W  250W    700W     200 to 700 W\n"));
  EXPECT_THAT(text, HasSubstr("power is not as it is wanted (asked for)"));
  EXPECT_THAT(text, HasSubstr("graphics 1980 MHz, memory n/a MHz"));
}

TEST(DeviceViews, AnUnknownSettingIsNeverZero) {
  auto ecc = Setting("ecc");
  ecc.supported = false;
  ecc.why = "this kind of GPU does not have it";
  const auto text = RenderDevices(One({ecc, Setting("graphics_clocks")}), kPlain);
  EXPECT_THAT(text, HasSubstr("not supported"));
  EXPECT_THAT(text, HasSubstr("this kind of GPU does not have it"));
  EXPECT_THAT(text, HasSubstr("graphics clocks  n/a (not readable)"));
  EXPECT_THAT(text.substr(text.find("SETTING")), Not(HasSubstr(" 0 ")));
}

TEST(DeviceViews, AModeThatWaitsForAResetSaysSo) {
  auto ecc = Setting("ecc");
  ecc.now = "on";
  ecc.pending = "off";
  const auto text = RenderDevices(One({ecc}), kPlain);
  EXPECT_THAT(text, HasSubstr("on (off after a reset)"));
  EXPECT_THAT(text, HasSubstr("takes effect with the next reset"));
}

TEST(DeviceViews, AProfileSaysWhoseItIsAndForHowLong) {
  ::setenv("TZ", "CET-1", 1);
  ::tzset();
  auto list = One({Setting("power")});
  list.devices[0].profiles = {{"benchmark", base::WallTime(std::chrono::seconds(1'795'000'000)), {}},
                              {"efficiency", {}, 7}};
  EXPECT_THAT(RenderDevices(list, kPlain),
              HasSubstr("  profile benchmark is in force until 2026-11-18 12:06:40\n"
                        "  profile efficiency is in force for job 7\n"));
}

TEST(DeviceViews, AGpuThatCannotBeReadSaysWhy) {
  auto list = One({});
  list.devices[0].problem = "the GPU is lost";
  EXPECT_EQ(RenderDevices(list, kPlain), "GPU 0  NVIDIA H200\n  the GPU is lost\n");
  EXPECT_EQ(RenderDevices({}, kPlain), "No GPUs.\n");
}

TEST(DeviceViews, AReportHasALineForEachStep) {
  api::DeviceSettingsResult report;
  EXPECT_THAT(RenderDeviceReport(report, kPlain), HasSubstr("nothing to change"));
  report.steps = {{1, "GPU-a", "power", "700W", "250W"}, {1, "GPU-a", "graphics_clocks", {}, "1200,1200"}};
  report.notes = {"ECC waits"};
  EXPECT_EQ(RenderDeviceReport(report, kPlain),
            "GPU 1: power 700W -> 250W\nGPU 1: graphics clocks n/a -> 1200,1200\nnote: ECC waits\n");
  report.steps.push_back({1, "GPU-a", "graphics_clocks", "unlocked", "unlocked"});
  EXPECT_THAT(RenderDeviceReport(report, kPlain), HasSubstr("graphics clocks unlocked, set again\n"));
  report.dry_run = true;
  EXPECT_THAT(RenderDeviceReport(report, kPlain), HasSubstr("would set GPU 1: power 700W -> 250W\n"));
}

}  // namespace
}  // namespace gpuman::cli
