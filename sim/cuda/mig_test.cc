// A program on a GPU that is split sees one instance, with its own memory.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "sim/cuda/test_cuda.h"
#include "sim/state/mig.h"

namespace gpuman::sim::cuda {
namespace {

constexpr unsigned kRow1g = 0, kRow3g = 4;  // of the H200's table

MigDevice Split(Shared& shared, unsigned gpu, unsigned row, unsigned slices = 0) {
  shared.gpu[gpu].mig_current.store(1);
  MigInstance instance;
  unsigned compute = 0;
  EXPECT_EQ(CreateMigInstance(shared, gpu, row, std::nullopt, instance), MigOutcome::kDone);
  const unsigned all = MigProfilesOf(shared, gpu)[row].slices;
  EXPECT_EQ(CreateMigCompute(shared, instance.index, slices == 0 ? all : slices, compute), MigOutcome::kDone);
  const MigInstance made = *MigInstanceAt(shared, instance.index);
  return {made, *made.Compute(compute)};
}

std::string NameOfDevice(const Cuda& cu) {
  char name[96] = "";
  EXPECT_OK(cu.cuDeviceGetName(name, sizeof name, 0));
  return name;
}

std::string UuidOfDevice(const Cuda& cu) {
  CUuuid uuid{};
  EXPECT_OK(cu.cuDeviceGetUuid_v2(&uuid, 0));
  return {uuid.bytes, sizeof uuid.bytes};
}

std::string BytesOf(const std::string& uuid) {
  std::string bytes;
  for (std::size_t i = 4; i < uuid.size();) {
    if (uuid[i] == '-') {
      ++i;
      continue;
    }
    bytes.push_back(static_cast<char>(std::stoi(uuid.substr(i, 2), nullptr, 16)));
    i += 2;
  }
  return bytes;
}

int CountOf(const Cuda& cu) {
  int count = -1;
  EXPECT_OK(cu.cuDeviceGetCount(&count));
  return count;
}

int MultiprocessorsOf(const Cuda& cu) {
  int count = 0;
  EXPECT_OK(cu.cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  return count;
}

TEST(MigDevices, NamedInstanceIsTheOnlyVisibleDevice) {
  OnState({.profile = "h200", .gpus = 2}, [](Cuda& cu, TestState& state) {
    Split(state.shared(), 0, kRow1g);
    const auto device = Split(state.shared(), 0, kRow3g);
    const auto uuid = MigUuid(state.shared(), device.instance, device.compute.id);
    // Entries behind it do not count: a process has one MIG device.
    setenv("CUDA_VISIBLE_DEVICES", (uuid + ",1").c_str(), 1);
    Start(cu);
    EXPECT_EQ(CountOf(cu), 1);
    EXPECT_EQ(NameOfDevice(cu), "NVIDIA H200 MIG 3g.71gb");
    EXPECT_EQ(UuidOfDevice(cu), BytesOf(uuid));
    EXPECT_EQ(MultiprocessorsOf(cu), 60);
    const std::uint64_t memory = MigMemory(state.shared(), 0, MigProfilesOf(state.shared(), 0)[kRow3g]);
    std::size_t total = 0;
    EXPECT_OK(cu.cuDeviceTotalMem_v2(&total, 0));
    EXPECT_LE(total, memory);
    EXPECT_GT(total, memory - 64 * kMegabyte);
    CUdeviceptr pointer = 0;
    EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&pointer, memory));
    EXPECT_NE(Allocate(cu, memory / 2), 0u);
    // The instance's memory also counts for its GPU, and for no other instance.
    EXPECT_GE(DeviceUsed(state.shared(), 0), memory / 2);
    EXPECT_EQ(DeviceUsed(state.shared(), MigDevices(state.shared(), 0)[1].instance.device()),
              DeviceUsed(state.shared(), 0));
    EXPECT_EQ(DeviceUsed(state.shared(), 1), 0u);
  });
}

TEST(MigDevices, ComputeInstanceHasItsPartOfTheGpuInstance) {
  OnState({.profile = "h200"}, [](Cuda& cu, TestState& state) {
    const auto device = Split(state.shared(), 0, kRow3g, 1);
    setenv("CUDA_VISIBLE_DEVICES", MigUuid(state.shared(), device.instance, device.compute.id).c_str(), 1);
    EXPECT_OK(cu.cuInit(0));
    EXPECT_EQ(NameOfDevice(cu), "NVIDIA H200 MIG 1c.3g.71gb");
    EXPECT_EQ(MultiprocessorsOf(cu), 20);
  });
}

TEST(MigDevices, InstanceIsHiddenBesideAWholeGpu) {
  OnState({.profile = "h200", .gpus = 2}, [](Cuda& cu, TestState& state) {
    Split(state.shared(), 0, kRow1g);
    EXPECT_OK(cu.cuInit(0));
    EXPECT_EQ(CountOf(cu), 1);
    EXPECT_EQ(NameOfDevice(cu), "NVIDIA H200");
  });
}

TEST(MigDevices, FirstInstanceIsVisibleWithoutWholeGpu) {
  OnState({.profile = "h200", .gpus = 1}, [](Cuda& cu, TestState& state) {
    const auto first = Split(state.shared(), 0, kRow1g);
    Split(state.shared(), 0, kRow1g);
    EXPECT_OK(cu.cuInit(0));
    EXPECT_EQ(CountOf(cu), 1);
    EXPECT_EQ(UuidOfDevice(cu), BytesOf(MigUuid(state.shared(), first.instance, first.compute.id)));
  });
}

}  // namespace
}  // namespace gpuman::sim::cuda
