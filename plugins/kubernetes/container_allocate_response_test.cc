#include "plugins/kubernetes/container_allocate_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_temp_dir.h"
#include "plugins/kubernetes/test_pools.h"

namespace gpuman::kubernetes {
namespace {

using base::ErrorCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

class ContainerAllocateResponseTest : public ::testing::Test {
 protected:
  base::Result<ContainerAllocateResponse> Ask(const std::vector<std::string>& ids, bool away = false) {
    const auto config = [&] {
      auto made = ConfigOf({resource_});
      made.handing = handing_;
      made.environment = {{"A", "b"}};
      made.mounts = {{"/h", "/c", true}};
      return made;
    }();
    const auto pools = MakePools(config, machine_);
    return MakeGrant(config, pools.pools[0], files_, away, ids, root_.path());
  }
  std::pair<ErrorCode, std::string> ErrorOf(const std::vector<std::string>& ids, bool away = false) {
    const auto grant = Ask(ids, away);
    if (grant) return {ErrorCode::kInternal, "granted"};
    return {grant.error().code, grant.error().message};
  }
  void Write(const std::string& path, const std::string& text) {
    ASSERT_TRUE(base::MakeDirectories((root_.path() / path).parent_path()));
    ASSERT_TRUE(base::ReplaceFile(root_.path() / path, text));
  }

  base::TempDir root_;
  Inventory machine_ = Machine(2, 16);
  Resource resource_ = ResourceOf(ResourceKind::kMemory, "gpuman.io/gpumem-gib");
  DeviceInjectionOptions handing_{.environment = true};
  std::optional<api::ContainerMounts> files_;
};

TEST_F(ContainerAllocateResponseTest, TheLibraryComesWithItsSocketAndWithoutTheDaemons) {
  files_ = {"/usr/lib/gpuman/libgpuman.so", "/var/lib/gpuman/ld.so.preload", "/run/gpuman/shim.sock.d"};
  const auto grant = Ask(Parts("GPU-1", 3, 6));
  ASSERT_TRUE(grant) << grant.error().message;
  EXPECT_THAT(grant->mounts,
              ElementsAre(MountRule{"/h", "/c", true},
                          MountRule{"/usr/lib/gpuman/libgpuman.so", "/usr/lib/gpuman/libgpuman.so", false},
                          MountRule{"/var/lib/gpuman/ld.so.preload", "/etc/ld.so.preload", false},
                          MountRule{"/run/gpuman/shim.sock.d", "/run/gpuman", false}));
  EXPECT_THAT(grant->environment, Contains(Pair("GPUMAN_SHIM_SOCKET", "/run/gpuman/shim.sock")));
  EXPECT_THAT(grant->environment, Not(Contains(Key("GPUMAN_SHIM_EVICTABLE"))));
  resource_ = ResourceOf(ResourceKind::kShared, "gpuman.io/shared");
  resource_.replicas = 4;
  const auto shared = Ask({"GPU-1::2"});
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_THAT(shared->environment, Contains(Pair("GPUMAN_SHIM_EVICTABLE", "1")));
}

TEST_F(ContainerAllocateResponseTest, PartsOfOneGpuGiveItsUuidAndTheirMemory) {
  const auto grant = Ask(Parts("GPU-1", 3, 6));
  ASSERT_TRUE(grant) << grant.error().message;
  EXPECT_THAT(grant->environment, Contains(Pair("NVIDIA_VISIBLE_DEVICES", "GPU-1")));
  EXPECT_THAT(grant->environment, Contains(Pair("CUDA_VISIBLE_DEVICES", "GPU-1")));
  EXPECT_THAT(grant->environment, Contains(Pair("GPUMAN_MEMORY", std::to_string(4ull << 30))));
  EXPECT_THAT(grant->environment, Contains(Pair("GPUMAN_RESOURCE", "gpuman.io/gpumem-gib")));
  EXPECT_THAT(grant->environment, Contains(Pair("A", "b")));
  EXPECT_THAT(grant->mounts, ElementsAre(MountRule{"/h", "/c", true}));
  EXPECT_THAT(grant->nodes, IsEmpty());
  EXPECT_THAT(grant->cdi, IsEmpty());
}

TEST_F(ContainerAllocateResponseTest, AnImpossibleGrantIsRefusedWithTheReason) {
  EXPECT_THAT(ErrorOf({"GPU-0::1", "GPU-1::1"}), Pair(ErrorCode::kConflict, HasSubstr("spread over 2 GPUs")));
  EXPECT_THAT(ErrorOf({"GPU-0::16"}), Pair(ErrorCode::kNotFound, HasSubstr("has no device GPU-0::16")));
  EXPECT_THAT(ErrorOf({"GPU-0::1", "GPU-0::1"}), Pair(ErrorCode::kConflict, HasSubstr("twice")));
  EXPECT_THAT(ErrorOf({}), Pair(ErrorCode::kInvalidArgument, HasSubstr("no device")));
  EXPECT_THAT(ErrorOf({"GPU-0::1"}, true), Pair(ErrorCode::kConflict, HasSubstr("gpumand does not answer")));
  machine_.gpus[0].healthy = false;
  EXPECT_THAT(ErrorOf({"GPU-0::1"}), Pair(ErrorCode::kConflict, HasSubstr("GPU-0 is not healthy")));
}

TEST_F(ContainerAllocateResponseTest, AContainerHasOneTurnAndOneMigInstance) {
  resource_ = ResourceOf(ResourceKind::kShared, "gpuman.io/shared");
  resource_.replicas = 4;
  EXPECT_TRUE(Ask({"GPU-0::3"}));
  EXPECT_THAT(ErrorOf({"GPU-0::2", "GPU-0::3"}), Pair(ErrorCode::kConflict, HasSubstr("can have 1")));
  resource_ = ResourceOf(ResourceKind::kMig, "gpuman.io/mig");
  resource_.profile = "p";
  machine_.gpus[0].split = true;
  machine_.gpus[0].instances = {{"MIG-a", "p", base::GiB(8), 1, 0}, {"MIG-b", "p", base::GiB(8), 2, 0}};
  EXPECT_TRUE(Ask({"MIG-a"}));
  EXPECT_THAT(ErrorOf({"MIG-a", "MIG-b"}), Pair(ErrorCode::kUnsatisfiable, HasSubstr("one MIG instance")));
}

TEST_F(ContainerAllocateResponseTest, WholeGpusComeByCdiNames) {
  resource_ = ResourceOf(ResourceKind::kWhole, "gpuman.io/gpu");
  handing_ = {.environment = false, .cdi = true};
  const auto grant = Ask({"GPU-1", "GPU-0"});
  ASSERT_TRUE(grant) << grant.error().message;
  EXPECT_THAT(grant->cdi, ElementsAre("nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-0"));
  EXPECT_THAT(grant->environment, Not(Contains(Key("NVIDIA_VISIBLE_DEVICES"))));
  EXPECT_THAT(grant->environment, Not(Contains(Key("GPUMAN_MEMORY"))));
}

TEST_F(ContainerAllocateResponseTest, DeviceNodesAreThoseThatTheDriverNames) {
  handing_ = {.environment = false, .nodes = true};
  EXPECT_THAT(ErrorOf({"GPU-0::0"}), Pair(ErrorCode::kUnavailable, HasSubstr("no /dev/nvidiactl")));
  Write("dev/nvidia-uvm", "");
  EXPECT_THAT(ReadCommonNodes(root_.path()), IsEmpty());
  Write("dev/nvidiactl", "");
  machine_.gpus[0].minor = 5;
  auto grant = Ask({"GPU-0::0"});
  ASSERT_TRUE(grant) << grant.error().message;
  EXPECT_THAT(grant->nodes, ElementsAre("/dev/nvidia5", "/dev/nvidiactl", "/dev/nvidia-uvm"));
  machine_.gpus[0].minor.reset();
  EXPECT_THAT(ErrorOf({"GPU-0::0"}), Pair(ErrorCode::kUnavailable, HasSubstr("device node of GPU-0")));
}

TEST_F(ContainerAllocateResponseTest, AMigInstanceNeedsItsCapabilities) {
  handing_ = {.environment = false, .nodes = true};
  resource_ = ResourceOf(ResourceKind::kMig, "gpuman.io/mig");
  resource_.profile = "p";
  machine_.gpus[0].split = true;
  machine_.gpus[0].instances = {{"MIG-a", "p", base::GiB(8), 7, 0}};
  EXPECT_THAT(ErrorOf({"MIG-a"}), Pair(ErrorCode::kUnavailable, HasSubstr("device nodes of MIG-a")));
  Write("proc/driver/nvidia/capabilities/gpu0/mig/gi7/access", "DeviceFileMinor: 66\nDeviceFileMode: 292\n");
  Write("proc/driver/nvidia/capabilities/gpu0/mig/gi7/ci0/access",
        "DeviceFileMinor: 67\nDeviceFileMode: 292\n");
  Write("dev/nvidiactl", "");
  const auto grant = Ask({"MIG-a"});
  ASSERT_TRUE(grant) << grant.error().message;
  EXPECT_THAT(grant->nodes, ElementsAre("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap66",
                                        "/dev/nvidia-caps/nvidia-cap67", "/dev/nvidiactl"));
}

TEST_F(ContainerAllocateResponseTest, TheDriversFilesTellMinorAndNumaNode) {
  Write("proc/driver/nvidia/gpus/0000:1B:00.0/information",
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 16\nGPU UUID: \t GPU-a\nBus Location: \t 0000:1b:00.0\nDevice "
        "Minor: \t 3\n");
  Write("sys/bus/pci/devices/0000:1b:00.0/numa_node", "1\n");
  Write("proc/driver/nvidia/gpus/0000:1c:00.0/information", "GPU UUID: \t GPU-b\n");
  Write("sys/bus/pci/devices/0000:1c:00.0/numa_node", "-1\n");
  Write("proc/driver/nvidia/gpus/0000:1d:00.0/information", "Model: x\n");
  auto gpus = ReadNodeGpus(root_.path());
  ASSERT_EQ(gpus.size(), 2u);
  if (gpus[0].uuid != "GPU-a") std::swap(gpus[0], gpus[1]);
  EXPECT_EQ(gpus[0].minor, 3u);
  EXPECT_EQ(gpus[0].memory_node, 1);
  EXPECT_EQ(gpus[1].uuid, "GPU-b");
  EXPECT_EQ(gpus[1].minor, std::nullopt);
  EXPECT_EQ(gpus[1].memory_node, std::nullopt);
  EXPECT_THAT(ReadNodeGpus("/nowhere"), IsEmpty());
}

}  // namespace
}  // namespace gpuman::kubernetes
