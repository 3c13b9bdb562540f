#include "device/record.h"

#include <gtest/gtest.h>

namespace gpuman::device {
namespace {

base::WallTime WallAt(int seconds) { return base::WallTime(std::chrono::seconds(1'795'000'000 + seconds)); }

SettingsRecord Full() {
  SettingsRecord record;
  record.base = {{Setting::kPower, Milliwatts(250'500)}, {Setting::kEcc, Switch(false)}};
  record.layers = {{"benchmark", {{Setting::kGraphicsClocks, Clocks(1200, 1400)}}, WallAt(60), {}},
                   {"performance", {{Setting::kPersistence, Switch(true)}}, {}, 7}};
  record.before = {{Setting::kGraphicsClocks, kUnlocked}, {Setting::kPersistence, Switch(false)}};
  record.to_restore = {{Setting::kComputeMode, Mode(ComputeMode::kExclusiveProcess)}};
  record.ecc_asked = WallAt(1);
  return record;
}

TEST(DeviceRecordTest, ComesBackAsItWasStored) {
  for (const auto& record : {SettingsRecord{}, Full()}) {
    const auto read = ParseRecord(SerializeRecord(record));
    ASSERT_TRUE(read) << SerializeRecord(record);
    EXPECT_EQ(*read, record);
  }
}

TEST(DeviceRecordTest, ARecordThatThisVersionCannotWriteIsCorrupt) {
  const auto text = SerializeRecord(Full());
  const auto with = [&](const std::string& what, const std::string& instead) {
    auto changed = text;
    changed.replace(changed.find(what), what.size(), instead);
    return changed;
  };
  for (const auto& wrong : {std::string(), std::string("[]"), std::string("{}"), with("250.5W", "250.5kW"),
                            with("\"power\"", "\"colour\""), with("\"job\":7", "\"job\":\"7\""),
                            with("\"owed\":{", "\"owed\":[{"), with("\"name\"", "\"mane\"")}) {
    const auto read = ParseRecord(wrong);
    ASSERT_FALSE(read) << wrong;
    EXPECT_EQ(read.error().code, base::ErrorCode::kCorrupt);
  }
  EXPECT_EQ(ParseRecord(with("\"v\":1", "\"v\":2")).error().code, base::ErrorCode::kNotSupported);
}

TEST(DeviceRecordTest, ALayerCountsAboveWhatWasAskedForAndAJobsAboveAProfile) {
  SettingsRecord record = Full();
  record.base[Setting::kGraphicsClocks] = Clocks(345, 345);
  record.layers[1].values[Setting::kGraphicsClocks] = kUnlocked;
  EXPECT_EQ(Wanted(record).at(Setting::kGraphicsClocks), kUnlocked);
  EXPECT_EQ(ReasonOf(record, Setting::kGraphicsClocks), "job 7 (profile performance)");
  record.layers.pop_back();
  EXPECT_EQ(Wanted(record).at(Setting::kGraphicsClocks), Clocks(1200, 1400));
  EXPECT_EQ(ReasonOf(record, Setting::kGraphicsClocks),
            "profile benchmark until " + base::FormatIso8601(WallAt(60)));
  record.layers.clear();
  EXPECT_EQ(Wanted(record).at(Setting::kGraphicsClocks), Clocks(345, 345));
  EXPECT_EQ(ReasonOf(record, Setting::kGraphicsClocks), "asked for");
  EXPECT_EQ(ReasonOf(record, Setting::kPersistence), "");
}

}  // namespace
}  // namespace gpuman::device
