#include "plugins/kubernetes/pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/kubernetes/test_pools.h"

namespace gpuman::kubernetes {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> IdsOf(const ResourcePool& pool) {
  std::vector<std::string> ids;
  for (const auto& device : DevicesOf(pool, false)) ids.push_back(device.id);
  return ids;
}

TEST(PoolsTest, AGpuIsInThePoolThatNamesItElseInThatOfTheRest) {
  const auto config =
      ConfigOf({ResourceOf(ResourceKind::kWhole, "w"), ResourceOf(ResourceKind::kMemory, "m", {"1"}),
                ResourceOf(ResourceKind::kMemory, "n", {"GPU-2"})});
  const auto pools = MakePools(config, Machine(4, 2));
  EXPECT_THAT(IdsOf(pools.pools[0]), ElementsAre("GPU-0", "GPU-3"));
  EXPECT_THAT(IdsOf(pools.pools[1]), ElementsAre("GPU-1::0", "GPU-1::1"));
  EXPECT_THAT(IdsOf(pools.pools[2]), ElementsAre("GPU-2::0", "GPU-2::1"));
  EXPECT_THAT(pools.problems, IsEmpty());
}

TEST(PoolsTest, AGpuThatTwoResourcesNameDifferentlyIsInNeither) {
  const auto config = ConfigOf(
      {ResourceOf(ResourceKind::kWhole, "w", {"0", "1"}), ResourceOf(ResourceKind::kMemory, "m", {"GPU-1"})});
  const auto pools = MakePools(config, Machine(2, 2));
  EXPECT_THAT(IdsOf(pools.pools[0]), ElementsAre("GPU-0"));
  EXPECT_THAT(IdsOf(pools.pools[1]), IsEmpty());
  EXPECT_THAT(pools.problems, Contains(HasSubstr("GPU-1 is named for w and for m")));
}

TEST(PoolsTest, AGpuThatIsNotThereIsSaid) {
  const auto pools = MakePools(ConfigOf({ResourceOf(ResourceKind::kWhole, "w", {"7"})}), Machine(1, 2));
  EXPECT_THAT(pools.problems, ElementsAre(HasSubstr("w names GPU 7")));
  EXPECT_THAT(MakePools(ConfigOf({ResourceOf(ResourceKind::kWhole, "w", {"7"})}), {}).problems, IsEmpty())
      << "nothing is known yet";
}

TEST(PoolsTest, MemoryIsCountedInWholeDevicesWithoutTheReserve) {
  auto machine = Machine(1, 0);
  machine.gpus[0].memory = base::Bytes{base::GiB(141).count - 1};
  auto resource = ResourceOf(ResourceKind::kMemory, "m");
  EXPECT_THAT(IdsOf(MakePools(ConfigOf({resource}), machine).pools[0]), SizeIs(140));
  resource.reserve = base::GiB(2);
  EXPECT_THAT(IdsOf(MakePools(ConfigOf({resource}), machine).pools[0]), SizeIs(138));
  resource.kind = ResourceKind::kSlice;
  resource.size = base::GiB(20);
  EXPECT_THAT(IdsOf(MakePools(ConfigOf({resource}), machine).pools[0]), SizeIs(6));
  resource.size = base::GiB(200);
  EXPECT_THAT(MakePools(ConfigOf({resource}), machine).problems,
              ElementsAre(HasSubstr("too little for one device")));
}

TEST(PoolsTest, OfASplitGpuTheInstancesOfTheProfileAreDevices) {
  auto machine = Machine(2, 141);
  machine.gpus[0].split = true;
  machine.gpus[0].instances = {{"MIG-a", "1g.18gb", base::GiB(16), 7, 0},
                               {"MIG-b", "3g.71gb", base::GiB(69), 1, 0}};
  auto mig = ResourceOf(ResourceKind::kMig, "mig");
  mig.profile = "1g.18gb";
  const auto pools = MakePools(ConfigOf({ResourceOf(ResourceKind::kWhole, "w"), mig}), machine);
  EXPECT_THAT(IdsOf(pools.pools[0]), ElementsAre("GPU-1"));
  EXPECT_THAT(IdsOf(pools.pools[1]), ElementsAre("MIG-a"));
  EXPECT_EQ(pools.pools[1].units[0].memory, base::GiB(16));
  EXPECT_EQ(pools.pools[1].units[0].gpu, "GPU-0");
}

TEST(PoolsTest, DevicesAreAsHealthyAsTheirGpuAndNoneIsWhileGpumandIsAway) {
  auto machine = Machine(2, 1);
  machine.gpus[1].healthy = false;
  const auto pools = MakePools(ConfigOf({ResourceOf(ResourceKind::kMemory, "m")}), machine);
  EXPECT_THAT(DevicesOf(pools.pools[0], false),
              ElementsAre(Device{"GPU-0::0", true, 0}, Device{"GPU-1::0", false, 1}));
  EXPECT_THAT(DevicesOf(pools.pools[0], true),
              ElementsAre(Device{"GPU-0::0", false, 0}, Device{"GPU-1::0", false, 1}));
}

TEST(PoolsTest, AnIdIsFoundInOneSpellingAlone) {
  const auto parts = MakePools(ConfigOf({ResourceOf(ResourceKind::kMemory, "m")}), Machine(1, 12)).pools[0];
  EXPECT_EQ(FindUnit(parts, "GPU-0::11"), &parts.units[0]);
  for (const char* id :
       {"GPU-0::12", "GPU-0", "GPU-0::", "GPU-0::01", "GPU-0::-1", "GPU-0::1x", "GPU-1::0", "", "::"})
    EXPECT_EQ(FindUnit(parts, id), nullptr) << id;
  const auto whole = MakePools(ConfigOf({ResourceOf(ResourceKind::kWhole, "w")}), Machine(1, 12)).pools[0];
  EXPECT_EQ(FindUnit(whole, "GPU-0"), &whole.units[0]);
  EXPECT_EQ(FindUnit(whole, "GPU-0::0"), nullptr);
}

TEST(KubeInventoryTest, GpumandsWordsAndTheDriversFilesComeTogether) {
  api::GpuList list;
  for (int i = 0; i < 4; ++i) {
    api::GpuView gpu;
    gpu.index = i;
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.memory.emplace().total = base::GiB(141);
    list.gpus.push_back(gpu);
  }
  list.gpus[1].health.state = "degraded";
  list.gpus[2].health.state = "unhealthy";
  list.gpus[2].memory.reset();
  list.gpus[3].uuid = "MIG-x";
  api::MigGpu split;
  split.uuid = "GPU-0";
  split.enabled = true;
  auto& instance = split.instances.emplace_back();
  instance.id = 3;
  instance.profile = "1g.18gb";
  instance.memory = base::GiB(16);
  instance.compute = {{0, 1, "MIG-x", {}}};
  const auto inventory = InventoryOf(list, {{split}}, {{"GPU-1", 5u, 1}});
  ASSERT_THAT(inventory.gpus, SizeIs(3));
  EXPECT_TRUE(inventory.gpus[0].split);
  EXPECT_THAT(inventory.gpus[0].instances, ElementsAre(Instance{"MIG-x", "1g.18gb", base::GiB(16), 3, 0}));
  EXPECT_TRUE(inventory.gpus[1].healthy) << "degraded works";
  EXPECT_EQ(inventory.gpus[1].minor, 5u);
  EXPECT_FALSE(inventory.gpus[2].healthy);
  EXPECT_FALSE(inventory.incomplete);

  list.gpus[1].memory.reset();
  EXPECT_TRUE(InventoryOf(list, {}, {}).incomplete) << "no figures, and not for being ill: they will come";
  EXPECT_TRUE(InventoryOf({}, {}, {}).incomplete);
}

TEST(KubeInventoryTest, AGpuThatIsGoneStaysUnhealthyAndKeepsItsSize) {
  const auto before = Machine(3, 80);
  auto now = Machine(2, 80);
  now.gpus[1].memory.reset();
  now.gpus[1].healthy = false;
  const auto merged = Merge(before, now);
  ASSERT_THAT(merged.gpus, SizeIs(3));
  EXPECT_TRUE(merged.gpus[0].healthy);
  EXPECT_EQ(merged.gpus[1].memory, base::GiB(80));
  EXPECT_FALSE(merged.gpus[2].healthy);
}

}  // namespace
}  // namespace gpuman::kubernetes
