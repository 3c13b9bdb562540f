#include "mig/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "mig/placement.h"
#include "mig/test_tables.h"

namespace gpuman::mig {
namespace {

using sim::MigKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<LayoutItem> Items(const std::vector<std::string>& texts) { return *ParseItems(texts); }

struct Existing {
  const char* profile;
  unsigned start;
  std::vector<unsigned> compute;  // slices; none: one instance with all
};

GpuMigState DeviceWith(const std::vector<Existing>& instances, MigKind kind = MigKind::kH200) {
  GpuMigState device{true, true, GeometryOf(kind), {}, {}};
  for (const auto& each : instances) {
    const auto profile = std::find_if(device.geometry.begin(), device.geometry.end(),
                                      [&](const MigProfile& p) { return p.name == each.profile; });
    const auto index = static_cast<std::size_t>(profile - device.geometry.begin());
    GpuInstance instance{each.start + 1, index, {each.start, profile->placements.front().size}, {}};
    auto compute = each.compute;
    if (compute.empty()) compute = {profile->slices};
    for (unsigned i = 0; i < compute.size(); ++i) instance.compute.push_back({i, compute[i], ""});
    device.instances.push_back(std::move(instance));
  }
  return device;
}

std::vector<std::string> StepsOf(const GpuMigState& device, const WantedLayout& wanted) {
  const auto plan = MakePlan(device, wanted);
  if (!plan) return {plan.error().message};
  std::vector<std::string> steps;
  for (const auto& step : plan->steps) steps.push_back(Describe(device.geometry, step));
  return steps;
}

TEST(MigPlan, OfWhatIsThereAlreadyIsEmpty) {
  EXPECT_THAT(StepsOf(DeviceWith({{"3g.71gb", 4, {}}, {"1g.18gb", 0, {}}, {"1g.18gb", 2, {}}}),
                      {true, Items({"2x1g.18gb", "3g.71gb"})}),
              IsEmpty());
  EXPECT_THAT(StepsOf(DeviceWith({}), {true, {}}), IsEmpty());
}

TEST(MigPlan, CreatesTheBigOnesFirstAndTheirComputeInstancesWithThem) {
  EXPECT_THAT(StepsOf(DeviceWith({}), {true, Items({"1g.18gb", "4g.71gb"})}),
              ElementsAre("create 4g.71gb at slice 0", "create the compute instance of 4g.71gb at slice 0",
                          "create 1g.18gb at slice 4", "create the compute instance of 1g.18gb at slice 4"));
}

TEST(MigPlan, KeepsWhatFitsAndDestroysTheRestFirst) {
  EXPECT_THAT(
      StepsOf(DeviceWith({{"1g.18gb", 0, {}}, {"3g.71gb", 4, {}}}), {true, Items({"4g.71gb", "3g.71gb"})}),
      ElementsAre("destroy the compute instance of 1g.18gb at slice 0", "destroy 1g.18gb at slice 0",
                  "create 4g.71gb at slice 0", "create the compute instance of 4g.71gb at slice 0"));
}

TEST(MigPlan, MovesOneThatLiesInTheWayOfTheOthers) {
  // The small instance at slice 0 leaves no place for a half beside the half that stays.
  EXPECT_THAT(
      StepsOf(DeviceWith({{"1g.18gb", 0, {}}, {"3g.71gb", 4, {}}}), {true, Items({"2x3g.71gb", "1g.18gb"})}),
      ElementsAre(HasSubstr("need 9 slices of memory")));
  EXPECT_THAT(StepsOf(DeviceWith({{"1g.18gb", 0, {}}}), {true, Items({"4g.71gb", "1g.18gb"})}),
              ElementsAre("destroy the compute instance of 1g.18gb at slice 0", "destroy 1g.18gb at slice 0",
                          "create 4g.71gb at slice 0", "create the compute instance of 4g.71gb at slice 0",
                          "create 1g.18gb at slice 4", "create the compute instance of 1g.18gb at slice 4"));
}

TEST(MigPlan, SharesAGpuInstanceOut) {
  EXPECT_THAT(StepsOf(DeviceWith({}), {true, Items({"2x1c.3g.71gb"})}),
              ElementsAre("create 3g.71gb at slice 0",
                          "create a compute instance of 1 slice(s) of 3g.71gb at slice 0",
                          "create a compute instance of 1 slice(s) of 3g.71gb at slice 0"));
}

TEST(MigPlan, ChangesComputeInstancesWhereTheirGpuInstanceCanStay) {
  EXPECT_THAT(StepsOf(DeviceWith({{"3g.71gb", 0, {1}}}), {true, Items({"1c.3g.71gb", "2c.3g.71gb"})}),
              ElementsAre("create a compute instance of 2 slice(s) of 3g.71gb at slice 0"));
  EXPECT_THAT(StepsOf(DeviceWith({{"3g.71gb", 0, {1, 2}}}), {true, Items({"3g.71gb"})}),
              ElementsAre("destroy a compute instance of 1 slice(s) of 3g.71gb at slice 0",
                          "destroy a compute instance of 2 slice(s) of 3g.71gb at slice 0",
                          "create the compute instance of 3g.71gb at slice 0"));
}

TEST(MigPlan, TurnsTheModeOnFirst) {
  GpuMigState device = DeviceWith({});
  device.enabled = device.pending = false;
  device.processes = {{41, "python", {}, {}}};
  const auto plan = *MakePlan(device, {true, Items({"7g.141gb"})});
  EXPECT_EQ(plan.steps.front().kind, StepKind::kEnable);
  EXPECT_EQ(plan.steps.size(), 3u);
  EXPECT_EQ(plan.in_the_way, device.processes);
  device.pending = true;  // the mode waits for a reset; the plan tries it again
  EXPECT_EQ(MakePlan(device, {true, {}})->steps.front().kind, StepKind::kEnable);
}

TEST(MigPlan, TurnsTheModeOffWhenAllIsGone) {
  EXPECT_THAT(StepsOf(DeviceWith({{"7g.141gb", 0, {}}}), {false, {}}),
              ElementsAre("destroy the compute instance of 7g.141gb at slice 0",
                          "destroy 7g.141gb at slice 0", "turn MIG mode off"));
  GpuMigState off = DeviceWith({});
  off.enabled = off.pending = false;
  off.processes = {{41, "python", {}, {}}};
  EXPECT_TRUE(MakePlan(off, {false, {}})->steps.empty());
  EXPECT_TRUE(MakePlan(off, {false, {}})->in_the_way.empty());
  EXPECT_FALSE(MakePlan(off, {false, Items({"1g.18gb"})}));
}

TEST(MigPlan, RemovesTheInstancesAndLeavesTheModeAlone) {
  const WantedLayout cleared{true, {}, true};
  GpuMigState device = DeviceWith({{"7g.141gb", 0, {}}});
  for (const bool pending : {true, false}) {
    device.pending = pending;
    EXPECT_THAT(StepsOf(device, cleared), ElementsAre("destroy the compute instance of 7g.141gb at slice 0",
                                                      "destroy 7g.141gb at slice 0"));
  }
  GpuMigState off = DeviceWith({});
  for (const bool pending : {true, false}) {
    off.enabled = false;
    off.pending = pending;
    EXPECT_TRUE(MakePlan(off, cleared)->steps.empty());
  }
  EXPECT_FALSE(MakePlan(device, {true, Items({"1g.18gb"}), true}));
}

TEST(MigPlan, NamesTheProcessesInTheWayAndThoseAlone) {
  GpuMigState device = DeviceWith({{"1g.18gb", 0, {}}, {"1g.18gb", 1, {}}, {"3g.71gb", 4, {}}});
  device.processes = {{41, "python", 1, 0}, {42, "", 2, 0}, {43, "train", 5, 0}};
  const auto plan = *MakePlan(device, {true, Items({"4g.71gb", "3g.71gb"})});
  ASSERT_EQ(plan.in_the_way.size(), 2u);
  const auto error = InTheWay(plan, {});
  EXPECT_EQ(error.code, base::ErrorCode::kConflict);
  EXPECT_EQ(error.message, "2 processes run where something has to change: 41 (python), 42");
  Plan alone = plan;
  alone.in_the_way.pop_back();
  EXPECT_EQ(InTheWay(alone, {}).message, "1 process runs where something has to change: 41 (python)");
}

TEST(MigPlan, CallsAProcessGpumansOwnByItsPidAndNotByItsName) {
  Plan plan;
  plan.in_the_way = {{41, "gpuman-mover", {}, {}}, {42, "gpuman-mover", {}, {}}};
  EXPECT_EQ(
      InTheWay(plan, {41}).message,
      "2 processes run where something has to change: 41 (gpuman's own, for jobs that are suspended or take "
      "turns), 42 (gpuman-mover)");
}

TEST(MigPlan, KeepsTheInstanceThatIsInUseOfTwoThatCouldStay) {
  for (const unsigned busy : {0u, 1u, 4u}) {
    GpuMigState device = DeviceWith({{"1g.18gb", 0, {}}, {"1g.18gb", 1, {}}, {"1g.18gb", 4, {}}});
    device.processes = {{41, "python", busy + 1, 0}};
    const auto plan = *MakePlan(device, {true, Items({"1g.18gb"})});
    EXPECT_THAT(plan.kept, ElementsAre(busy + 1));
    EXPECT_THAT(plan.in_the_way, IsEmpty());
  }
}

TEST(MigPlan, KeepsTheComputeInstanceThatIsInUse) {
  GpuMigState device = DeviceWith({{"3g.71gb", 0, {1, 1}}});
  device.processes = {{41, "python", 1, 1}};
  const auto plan = *MakePlan(device, {true, Items({"1c.3g.71gb"})});
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].compute, 0u);
  EXPECT_THAT(plan.in_the_way, IsEmpty());
}

TEST(MigPlan, SaysWhyADeviceCannotBeThat) {
  EXPECT_EQ(MakePlan(DeviceWith({}), {true, Items({"3x3g.71gb"})}).error().code,
            base::ErrorCode::kUnsatisfiable);
  EXPECT_EQ(MakePlan(DeviceWith({}), {true, Items({"3g.40gb"})}).error().code, base::ErrorCode::kNotFound);
}

TEST(MigLost, IsWhatAResetTakesAndNotWhatSomebodyChanged) {
  const WantedLayout wanted{true, Items({"2x3g.71gb"})};
  EXPECT_TRUE(IsLost(DeviceWith({}), wanted));
  EXPECT_FALSE(IsLost(DeviceWith({{"3g.71gb", 0, {}}}), wanted));
  EXPECT_FALSE(IsLost(DeviceWith({}), {true, {}}));
  GpuMigState off = DeviceWith({});
  off.enabled = false;
  EXPECT_FALSE(IsLost(off, wanted));  // the mode comes with the reset
  off.pending = false;
  EXPECT_TRUE(IsLost(off, wanted));
  EXPECT_TRUE(IsLost(off, {true, {}}));
  EXPECT_FALSE(IsLost(off, {false, {}}));
}

// Carries out the steps on a list of instances, and is as strict as the driver.
class Replay {
 public:
  explicit Replay(const GpuMigState& device) : geometry_(device.geometry) {
    for (const auto& instance : device.instances) {
      auto& compute = at_[{instance.profile, instance.placement}];
      for (const auto& each : instance.compute) compute.insert(each.slices);
    }
  }
  bool Do(const MigStep& step) {
    const std::pair key{step.profile, step.placement};
    switch (step.kind) {
      case StepKind::kDestroyCompute: {
        const auto it = at_.find(key);
        if (it == at_.end() || !it->second.contains(step.slices)) return false;
        it->second.erase(it->second.find(step.slices));
        return true;
      }
      case StepKind::kDestroyGpu:
        return at_.contains(key) && at_[key].empty() && at_.erase(key) == 1;
      case StepKind::kCreateGpu: {
        for (const auto& [there, compute] : at_)
          if (there.second.start < step.placement.End() && step.placement.start < there.second.End())
            return false;
        at_[key];
        return true;
      }
      case StepKind::kCreateCompute: {
        const auto it = at_.find(key);
        if (it == at_.end()) return false;
        unsigned used = step.slices;
        for (const unsigned slices : it->second) used += slices;
        it->second.insert(step.slices);
        return used <= geometry_[step.profile].slices;
      }
      default:
        return false;
    }
  }
  std::multiset<std::pair<std::size_t, std::multiset<unsigned>>> Result() const {
    std::multiset<std::pair<std::size_t, std::multiset<unsigned>>> result;
    for (const auto& [key, compute] : at_) result.emplace(key.first, compute);
    return result;
  }

 private:
  const Geometry& geometry_;
  std::map<std::pair<std::size_t, MigPlacement>, std::multiset<unsigned>> at_;
};

// Plans from every pair of instances that fit beside each other to every set of up to three profiles.
TEST(MigPlan, LeadsFromAnythingToAnythingThatFits) {
  const Geometry geometry = GeometryOf(MigKind::kH200);
  std::vector<std::vector<Existing>> begins = {{}};
  for (const auto& a : geometry)
    for (const auto& at : a.placements)
      for (const auto& b : geometry)
        for (const auto& bt : b.placements)
          if (at.End() <= bt.start)
            begins.push_back({{a.name.c_str(), at.start, {}}, {b.name.c_str(), bt.start, {}}});
  std::size_t planned = 0;
  for (const auto& begin : begins) {
    const GpuMigState device = DeviceWith(begin);
    for (std::size_t a = 0; a < geometry.size(); ++a) {
      for (std::size_t b = a; b < geometry.size(); ++b) {
        const std::vector<std::size_t> profiles = {a, b};
        const auto plan = MakePlan(device, {true, {{geometry[a].name, 0, 1}, {geometry[b].name, 0, 1}}});
        ASSERT_EQ(plan.has_value(), FindPlacements(geometry, {}, profiles).has_value());
        if (!plan) continue;
        Replay replay(device);
        for (const auto& step : plan->steps) ASSERT_TRUE(replay.Do(step)) << Describe(geometry, step);
        std::multiset<std::pair<std::size_t, std::multiset<unsigned>>> wanted;
        for (const auto profile : profiles) wanted.emplace(profile, std::multiset{geometry[profile].slices});
        ASSERT_EQ(replay.Result(), wanted);
        ++planned;
      }
    }
  }
  EXPECT_GT(planned, 1000u);
}

}  // namespace
}  // namespace gpuman::mig
