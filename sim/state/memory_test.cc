#include "sim/state/memory.h"

#include <random>

#include "sim/state/liveness.h"
#include "sim/state/test_state.h"

namespace gpuman::sim {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::uint64_t SumOfHeld(const Shared& shared) {
  std::uint64_t sum = 0;
  for (const ProcessSlot& slot : shared.processes) sum += HeldUnits(slot, 0);
  return sum;
}

// Allocates and frees at random until killed; its memory never exceeds the common capacity.
[[noreturn]] void Churn(State& state, unsigned seed) {
  Client client(state);
  std::minstd_rand random(seed);
  std::uint64_t own = 0;
  for (;;) {
    const std::uint64_t bytes = (random() % 64 + 1) * kMiB;
    if (random() % 2 == 0 && own >= bytes) {
      client.ReturnDeviceBytes(0, bytes);
      own -= bytes;
    } else if (client.ReserveDeviceBytes(0, bytes)) {
      own += bytes;
    }
    if (OwnBytes(state, client, 0) != own ||
        DeviceUsed(state.shared(), 0) > DeviceCapacity(state.shared(), 0))
      _exit(9);
  }
}

TEST(MemoryAccounting, StaysExactWhileProcessesAreKilledAtRandomMoments) {
  TestState test({.profile = "rtx4050", .memory_total = 600 * kMiB});
  Client sweeper(test.state());
  std::minstd_rand random(7);
  std::array<pid_t, 4> workers{};
  for (unsigned round = 0; round < 200; ++round) {
    pid_t& worker = workers[round % workers.size()];
    if (worker != 0) {
      kill(worker, SIGKILL);
      int status = 0;
      ASSERT_EQ(waitpid(worker, &status, 0), worker);
      ASSERT_TRUE(WIFSIGNALED(status)) << "a worker saw a wrong figure";
    }
    worker = fork();
    if (worker == 0) Churn(test.state(), round);
    usleep(static_cast<useconds_t>(random() % 4000));  // the time of the kill is arbitrary
    if (round % 3 == 0) sweeper.SweepDead();
  }
  for (const pid_t worker : workers) {
    kill(worker, SIGKILL);
    waitpid(worker, nullptr, 0);
  }
  sweeper.SweepDead();
  EXPECT_EQ(DeviceUsed(test.shared(), 0), 0u);
  EXPECT_EQ(SumOfHeld(test.shared()), 0u);
  EXPECT_TRUE(sweeper.ReserveDeviceBytes(0, DeviceCapacity(test.shared(), 0)));
}

TEST(MemoryAccounting, TwoProcessesRacingForTheLastBytesShareThemExactly) {
  TestState test({.profile = "rtx4050", .memory_total = 500 * kMiB});
  const std::uint64_t capacity = DeviceCapacity(test.shared(), 0);
  const auto take_all = [&] {
    static Client client(test.state());
    while (client.ReserveDeviceBytes(0, kAccountingUnit)) {
    }
    return true;
  };
  Child first(take_all);
  Client reader(test.state());
  EXPECT_EQ(DeviceUsed(test.shared(), 0), capacity / kAccountingUnit * kAccountingUnit);
  Child second(take_all);
  EXPECT_TRUE(second.succeeded());
  EXPECT_EQ(SumOfHeld(test.shared()) * kAccountingUnit, DeviceUsed(test.shared(), 0));
}

TEST(MemoryAccounting, CompletesWhatADeadProcessHadBegun) {
  TestState test;
  Shared& shared = test.shared();
  Client reader(test.state());
  const std::uint64_t dead = MakeIdentity(static_cast<std::uint32_t>(getpid()), OwnSpace(), 1);
  ProcessSlot& slot = shared.processes[5];
  slot.owner.store(dead);
  shared.slot_limit.store(6);

  // The process died after it wrote its intent: nothing happened.
  slot.gpu[0].intent.store(std::uint64_t{1} << 40 | 100);
  reader.SweepDead();
  EXPECT_EQ(DeviceUsed(shared, 0), 0u);
  EXPECT_EQ(slot.owner.load(), 0u);

  // The process died after the change took effect and before it was applied: all of it is undone.
  slot.owner.store(dead);
  shared.gpu[0].memory.store(std::uint64_t{100} << 36 | std::uint64_t{5} << 24 | 1);
  EXPECT_EQ(DeviceUsed(shared, 0), 100 * kAccountingUnit);
  reader.SweepDead();
  EXPECT_EQ(DeviceUsed(shared, 0), 0u);
  EXPECT_EQ(HeldUnits(slot, 0), 0u);
}

TEST(MemoryAccounting, RefusesToGiveBackMoreThanIsHeld) {
  TestState test;
  EXPECT_TRUE(ChangeHeld(test.shared(), 0, 3, 10, 100));
  EXPECT_FALSE(ChangeHeld(test.shared(), 0, 3, -11, 100));
  EXPECT_TRUE(ChangeHeld(test.shared(), 0, 3, -10, 100));
  EXPECT_EQ(UsedUnits(test.shared(), 0), 0u);
}

}  // namespace
}  // namespace gpuman::sim
