#include "sim/state/lifecycle.h"

#include "sim/state/state.h"
#include "sim/state/test_state.h"

namespace gpuman::sim {
namespace {

TEST(DriverUnload, LosesSettingsOnceTheLastClientIsGone) {
  TestState test({.gpus = 2});
  test.shared().gpu[0].persistence.store(0);
  test.shared().gpu[1].persistence.store(1);
  Client first(test.state());
  ASSERT_NE(first.Slot(), nullptr);
  for (unsigned gpu = 0; gpu < 2; ++gpu) test.shared().gpu[gpu].power_limit_mw.store(300'000);

  Child second([&] {
    static Client client(test.state());
    return client.Slot() != nullptr && test.shared().gpu[0].power_limit_mw.load() == 300'000;
  });
  EXPECT_TRUE(second.succeeded()) << "while another client lives, settings stay";
  first.Release();
  second.Kill(SIGKILL);

  ASSERT_NE(first.Slot(), nullptr);
  EXPECT_EQ(test.shared().gpu[0].power_limit_mw.load(), 700'000u);
  EXPECT_EQ(test.shared().gpu[1].power_limit_mw.load(), 300'000u) << "persistence keeps the driver loaded";
}

TEST(GpuReset, PutsPendingModesIntoEffectAndKeepsAggregateCounters) {
  TestState test;
  GpuDynamic& gpu = test.shared().gpu[0];
  gpu.ecc_pending.store(0);
  gpu.ecc[0][1][2].store(3);
  gpu.ecc[1][1][2].store(5);
  gpu.lost.store(1);
  ResetGpu(test.shared(), 0);
  EXPECT_EQ(gpu.ecc_current.load(), 0u);
  EXPECT_EQ(gpu.ecc[0][1][2].load(), 0u);
  EXPECT_EQ(gpu.ecc[1][1][2].load(), 5u);
  EXPECT_EQ(gpu.lost.load(), 0u);
}

TEST(ClearFaults, EndsInjectedReadingsAndKeepsCounters) {
  TestState test;
  GpuDynamic& gpu = test.shared().gpu[0];
  gpu.temperature_c.store(95);
  gpu.ecc[1][1][2].store(5);
  test.shared().faults.allocation_fails_in[0].store(4);
  ClearFaults(test.shared(), kAllGpus);
  EXPECT_EQ(gpu.temperature_c.load(), kNotInjected);
  EXPECT_EQ(gpu.ecc[1][1][2].load(), 5u);
  EXPECT_EQ(test.shared().faults.allocation_fails_in[0].load(), 0u);
}

}  // namespace
}  // namespace gpuman::sim
