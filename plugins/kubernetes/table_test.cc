#include "plugins/kubernetes/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/kubernetes/test_pools.h"

namespace gpuman::kubernetes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kMem = "gpuman.io/gpumem-gib";

class TableTest : public ::testing::Test {
 protected:
  TableTest() {
    auto memory = ResourceOf(ResourceKind::kMemory, kMem, {"GPU-0", "GPU-1"});
    memory.priority = 90;
    auto shared = ResourceOf(ResourceKind::kShared, "gpuman.io/shared", {"GPU-2"});
    shared.replicas = 4;
    shared.priority = 70;
    shared.compute = spec::ComputeShare{25, false};
    pools_ = MakePools(ConfigOf({memory, shared, ResourceOf(ResourceKind::kWhole, "gpuman.io/gpu")}),
                       Machine(4, 16))
                 .pools;
  }
  std::vector<ResourcePool> pools_;
};

constexpr spec::ComputeShare kQuarter{25, false};

TEST_F(TableTest, EachContainerIsListedWithItsAllocation) {
  const std::vector<ContainerDeviceIds> kubelet = {
      {"team", "b", "main", kMem, Parts("GPU-1", 0, 1)},
      {"team", "a", "main", "gpuman.io/gpu", {"GPU-3"}},
      {"team", "b", "turns", "gpuman.io/shared", {"GPU-2::1"}},
      {"team", "b", "main", kMem, Parts("GPU-1", 4, 5)},  // kubelet reports another NUMA node
  };
  EXPECT_THAT(
      TableOf(kubelet, pools_),
      ElementsAre(api::ContainerAllocation{"team", "a", "main", "gpuman.io/gpu", {"GPU-3"}, {}, false, {}},
                  api::ContainerAllocation{"team", "b", "main", kMem, {"GPU-1"}, base::GiB(4), false, 90},
                  api::ContainerAllocation{
                      "team", "b", "turns", "gpuman.io/shared", {"GPU-2"}, {}, true, 70, kQuarter}));
}

TEST_F(TableTest, ContainerWithSeveralResourcesGetsTheLeastLimit) {
  const std::vector<ContainerDeviceIds> kubelet = {{"team", "a", "main", "gpuman.io/shared", {"GPU-2::0"}},
                                                   {"team", "a", "main", kMem, Parts("GPU-0", 0, 2)}};
  EXPECT_THAT(
      TableOf(kubelet, pools_),
      ElementsAre(api::ContainerAllocation{
          "team", "a", "main", "gpuman.io/shared", {"GPU-2", "GPU-0"}, base::GiB(3), true, 90, kQuarter}));
}

TEST_F(TableTest, ForeignResourcesAndUnknownDevicesAreLeftOut) {
  const std::vector<ContainerDeviceIds> kubelet = {{"team", "a", "main", "nvidia.com/gpu", {"GPU-0"}},
                                                   {"team", "b", "main", kMem, {"GPU-9::0", "junk"}},
                                                   {"team", "c", "main", kMem, {}}};
  EXPECT_THAT(TableOf(kubelet, pools_), IsEmpty());
}

}  // namespace
}  // namespace gpuman::kubernetes
