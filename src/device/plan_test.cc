#include "device/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "device/test_reading.h"

namespace gpuman::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

base::WallTime At(int seconds) { return base::WallTime(std::chrono::seconds(1'795'000'000 + seconds)); }

// A device that accepts all settings.
struct World {
  DeviceReading reading = H200();
  SettingsRecord record;
  Value clocks[2];  // memory, graphics: these cannot be read

  Value& LockOf(Setting setting) { return clocks[setting == Setting::kGraphicsClocks]; }
  void Do(const std::vector<DevicePlanStep>& steps) {
    for (const auto& step : steps) {
      if (IsClocks(step.setting)) {
        LockOf(step.setting) = step.to;
        continue;
      }
      auto& reported = reading.settings.at(step.setting);
      (step.setting == Setting::kEcc ? reported.pending : reported.now) = step.to;
    }
  }
  void Become(SettingsRecord next) {
    Do(StepsTo(next, record, reading, false));
    record = WithRestored(std::move(next));
  }
  Value Is(Setting setting) {
    if (IsClocks(setting)) return LockOf(setting);
    const auto& reported = reading.settings.at(setting);
    return reported.pending ? *reported.pending : *reported.now;
  }
};

TEST(PlanTest, ASettingWithItsDesiredValueNeedsNoStep) {
  const auto next = WithValues({}, {{Setting::kPersistence, Switch(true)}}, H200(), At(0));
  EXPECT_THAT(StepsTo(next, {}, H200(), true), IsEmpty());
}

TEST(PlanTest, AStepSaysWhatItGoesBackTo) {
  const auto next = WithValues({}, {{Setting::kPower, Milliwatts(250'000)}}, H200(), At(0));
  EXPECT_THAT(StepsTo(next, {}, H200(), false),
              ElementsAre(DevicePlanStep{Setting::kPower, Milliwatts(700'000), Milliwatts(250'000)}));
}

TEST(PlanTest, LockedClocksAreSetWhereTheyAreWantedOtherwiseOrAnew) {
  const SettingsRecord none;
  const auto locked = WithValues({}, {{Setting::kGraphicsClocks, Clocks(1200, 1200)}}, H200(), At(0));
  EXPECT_THAT(StepsTo(locked, none, H200(), false),
              ElementsAre(DevicePlanStep{Setting::kGraphicsClocks, kUnlocked, Clocks(1200, 1200)}));
  EXPECT_THAT(StepsTo(locked, locked, H200(), false), IsEmpty());
  EXPECT_THAT(StepsTo(locked, locked, H200(), true),
              ElementsAre(DevicePlanStep{Setting::kGraphicsClocks, Clocks(1200, 1200), Clocks(1200, 1200)}));
}

TEST(PlanTest, PersistenceComesFirstWhenItIsTurnedOnAndLastWhenItIsTurnedOff) {
  DeviceReading reading = H200();
  const Values both{{Setting::kPersistence, Switch(false)}, {Setting::kPower, Milliwatts(300'000)}};
  const auto off = StepsTo(WithValues({}, both, reading, At(0)), {}, reading, false);
  ASSERT_EQ(off.size(), 2U);
  EXPECT_EQ(off[1].setting, Setting::kPersistence);
  reading.settings.at(Setting::kPersistence).now = Switch(false);
  auto on_wish = both;
  on_wish[Setting::kPersistence] = Switch(true);
  const auto on = StepsTo(WithValues({}, on_wish, reading, At(0)), {}, reading, false);
  ASSERT_EQ(on.size(), 2U);
  EXPECT_EQ(on[0].setting, Setting::kPersistence);
}

TEST(PlanTest, AProfileIsTakenOffToWhatWasFound) {
  World world;
  world.reading.settings.at(Setting::kPower).now = Milliwatts(500'000);
  world.Become(
      WithLayer(world.record, {"p", {{Setting::kPower, Milliwatts(300'000)}}, {}, {}}, world.reading));
  EXPECT_EQ(world.Is(Setting::kPower), Milliwatts(300'000));
  const auto next = WithoutLayer(world.record, false);
  EXPECT_EQ(next.to_restore, (Values{{Setting::kPower, Milliwatts(500'000)}}));
  world.Become(next);
  EXPECT_EQ(world.Is(Setting::kPower), Milliwatts(500'000));
  EXPECT_TRUE(world.record.IsEmpty());
}

TEST(PlanTest, AProfileIsTakenOffToWhatWasAskedFor) {
  World world;
  world.Become(WithValues(world.record, {{Setting::kPower, Milliwatts(400'000)}}, world.reading, At(0)));
  world.Become(
      WithLayer(world.record, {"p", {{Setting::kPower, Milliwatts(300'000)}}, {}, {}}, world.reading));
  world.Become(WithoutLayer(world.record, false));
  EXPECT_EQ(world.Is(Setting::kPower), Milliwatts(400'000));
}

TEST(PlanTest, AProfileAfterAnotherGoesBackToWhatWasBeforeBoth) {
  World world;
  world.Become(
      WithLayer(world.record, {"a", {{Setting::kPower, Milliwatts(300'000)}}, {}, {}}, world.reading));
  world.Become(
      WithLayer(world.record, {"b", {{Setting::kPower, Milliwatts(350'000)}}, {}, {}}, world.reading));
  world.Become(WithoutLayer(world.record, false));
  EXPECT_EQ(world.Is(Setting::kPower), Milliwatts(700'000));
}

TEST(PlanTest, ANewLayerKeepsARestoreThatIsStillDue) {
  World world;
  world.Become(
      WithLayer(world.record, {"a", {{Setting::kPower, Milliwatts(300'000)}}, {}, 1}, world.reading));
  world.record = WithoutLayer(world.record, true);  // the daemon ends here, before it restores
  world.Become(
      WithLayer(world.record, {"b", {{Setting::kPower, Milliwatts(350'000)}}, {}, 2}, world.reading));
  world.Become(WithoutLayer(world.record, true));
  EXPECT_EQ(world.Is(Setting::kPower), Milliwatts(700'000));
}

TEST(PlanTest, AnExplicitWordCountsAboveProfilesAtOnce) {
  World world;
  world.Become(WithLayer(
      world.record,
      {"p", {{Setting::kPower, Milliwatts(300'000)}, {Setting::kGraphicsClocks, Clocks(1200, 1200)}}, {}, {}},
      world.reading));
  world.Become(WithValues(world.record, {{Setting::kPower, Milliwatts(650'000)}}, world.reading, At(0)));
  EXPECT_EQ(world.Is(Setting::kPower), Milliwatts(650'000));
  world.Become(WithoutLayer(world.record, false));
  EXPECT_EQ(world.Is(Setting::kPower), Milliwatts(650'000));
  EXPECT_EQ(world.Is(Setting::kGraphicsClocks), kUnlocked);
}

TEST(PlanTest, AResetGoesToTheDefaultAndWantsNothingMore) {
  World world;
  world.Become(WithValues(world.record, {{Setting::kPower, Milliwatts(400'000)}}, world.reading, At(0)));
  world.Become(WithoutValues(world.record, {{Setting::kPower, Milliwatts(700'000)}}));
  EXPECT_EQ(world.Is(Setting::kPower), Milliwatts(700'000));
  EXPECT_TRUE(world.record.IsEmpty());
}

TEST(PlanTest, EccIsAwaitedUntilAResetHasBroughtIt) {
  DeviceReading reading = H200();
  auto record = WithValues({}, {{Setting::kEcc, Switch(false)}}, reading, At(5));
  EXPECT_EQ(record.ecc_asked, At(5));
  reading.settings.at(Setting::kEcc).pending = Switch(false);
  EXPECT_THAT(StepsTo(record, record, reading, true), IsEmpty());
  EXPECT_THAT(DriftOf(record, reading), IsEmpty());
  EXPECT_EQ(WithEccSeen(record, reading, At(6)), record);
  reading.settings.at(Setting::kEcc).now = Switch(false);
  record = WithEccSeen(record, reading, At(7));
  EXPECT_EQ(record.ecc_asked, std::nullopt);
  EXPECT_EQ(record.ecc_since, At(7));
}

TEST(PlanTest, DriftIsWhatDiffersFromWhatIsWanted) {
  DeviceReading reading = H200();
  const auto record = WithValues(
      {}, {{Setting::kPower, Milliwatts(250'000)}, {Setting::kPersistence, Switch(true)}}, reading, At(0));
  EXPECT_THAT(DriftOf(record, reading),
              ElementsAre(Drift{Setting::kPower, Milliwatts(250'000), Milliwatts(700'000)}));
  reading.settings.at(Setting::kPower).now = Milliwatts(250'000);
  EXPECT_THAT(DriftOf(record, reading), IsEmpty());
  reading.settings.erase(Setting::kPower);
  EXPECT_THAT(DriftOf(record, reading), IsEmpty()) << "what was not read is no drift";
}

TEST(PlanTest, ALockIsLostOnlyWhenTheClockIsAboveIt) {
  DeviceReading reading = H200();
  const auto record = WithValues({}, {{Setting::kGraphicsClocks, Clocks(1200, 1200)}}, reading, At(0));
  reading.graphics_mhz = 345;
  EXPECT_THAT(DriftOf(record, reading), IsEmpty());
  reading.graphics_mhz = 1230;
  EXPECT_THAT(DriftOf(record, reading), IsEmpty());
  reading.graphics_mhz = 1980;
  EXPECT_THAT(DriftOf(record, reading),
              ElementsAre(Drift{Setting::kGraphicsClocks, Clocks(1200, 1200), Clocks(1980, 1980)}));
}

std::vector<DesiredSetting> DesiredSettings(const std::vector<std::pair<Setting, std::string>>& texts) {
  std::vector<DesiredSetting> desired;
  desired.reserve(texts.size());
  for (const auto& [setting, text] : texts) desired.push_back(*ParseDesiredSetting(setting, text));
  return desired;
}

TEST(PlanTest, ClocksThatAreAskedForTogetherHaveToGoTogether) {
  const auto good = ResolveAll(
      DesiredSettings({{Setting::kGraphicsClocks, "max"}, {Setting::kMemoryClocks, "2201"}}), H200(), {});
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->at(Setting::kGraphicsClocks), Clocks(375, 375));
  EXPECT_FALSE(ResolveAll(
      DesiredSettings({{Setting::kGraphicsClocks, "1980"}, {Setting::kMemoryClocks, "2201"}}), H200(), {}));
}

TEST(PlanTest, ClocksHaveToGoWithThoseThatAreLockedAlready) {
  const auto memory = WithValues({}, {{Setting::kMemoryClocks, Clocks(2201, 2201)}}, H200(), At(0));
  EXPECT_FALSE(ResolveAll(DesiredSettings({{Setting::kGraphicsClocks, "1980"}}), H200(), memory));
  EXPECT_TRUE(ResolveAll(DesiredSettings({{Setting::kGraphicsClocks, "375"}}), H200(), memory));
  const auto graphics = WithValues({}, {{Setting::kGraphicsClocks, Clocks(1980, 1980)}}, H200(), At(0));
  const auto refused = ResolveAll(DesiredSettings({{Setting::kMemoryClocks, "2201"}}), H200(), graphics);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("do not go with memory at 2201 MHz"));
  EXPECT_TRUE(ResolveAll(DesiredSettings({{Setting::kMemoryClocks, "3201"}}), H200(), graphics));
  EXPECT_TRUE(
      ResolveAll(DesiredSettings({{Setting::kMemoryClocks, "2201"}, {Setting::kGraphicsClocks, "unlocked"}}),
                 H200(), graphics));
}

// Layers are added and removed in any order, and the daemon may end at any point between storing and setting.
// When all layers are removed, the device has the values that the daemon found, except the values that were
// asked for.
RC_GTEST_PROP(PlanProperty, NothingThatLayersDidStays, ()) {
  World world;
  World untouched;
  Values asked;
  const auto count = *rc::gen::inRange(1, 12);
  for (int i = 0; i < count; ++i) {
    const auto setting =
        *rc::gen::elementOf(std::vector<Setting>(AllSettings().begin(), AllSettings().end()));
    const auto number = *rc::gen::inRange(0u, 2u);
    const Value value = setting == Setting::kPower         ? Milliwatts(300'000 + number)
                        : IsClocks(setting)                ? Clocks(400 + number, 900)
                        : setting == Setting::kComputeMode ? Value{0, number * 3}
                                                           : Switch(number != 0);
    SettingsRecord next = world.record;
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
        next = WithValues(next, {{setting, value}}, world.reading, At(i));
        asked[setting] = value;
        break;
      case 1:
        next = WithLayer(next, {"p", {{setting, value}}, {}, {}}, world.reading);
        break;
      case 2:
        next = WithLayer(next, {"j", {{setting, value}}, {}, i}, world.reading);
        break;
      case 3:
        next = WithoutLayer(next, false);
        break;
      default:
        next = WithoutLayer(next, true);
    }
    if (*rc::gen::inRange(0, 4) == 0) {
      world.record = *ParseRecord(SerializeRecord(next));
      world.Do(StepsTo(world.record, world.record, world.reading, true));  // as a daemon does when it starts
      world.record = WithRestored(world.record);
    } else {
      world.Become(next);
    }
  }
  world.Become(WithoutLayer(WithoutLayer(world.record, false), true));
  for (const auto setting : AllSettings()) {
    const auto expected = asked.contains(setting) ? asked.at(setting) : untouched.Is(setting);
    RC_ASSERT(world.Is(setting) == expected);
  }
  RC_ASSERT(world.record.layers.empty() && world.record.before.empty() && world.record.to_restore.empty());
}

}  // namespace
}  // namespace gpuman::device
