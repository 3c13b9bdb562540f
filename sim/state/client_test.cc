#include <fcntl.h>

#include "sim/state/liveness.h"
#include "sim/state/state.h"
#include "sim/state/test_state.h"

namespace gpuman::sim {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(Client, SharesOneSlotWithAnotherLibraryOfTheProcess) {
  TestState test;
  Client cuda(test.state());
  Client nvml(test.state());
  ASSERT_NE(cuda.Slot(), nullptr);
  EXPECT_EQ(cuda.Slot(), nvml.Slot());
  cuda.Release();
  EXPECT_EQ(nvml.LiveSlots().size(), 1u) << "still used by the other";
  nvml.Release();
  Client reader(test.state());
  EXPECT_TRUE(reader.LiveSlots().empty());
}

TEST(Client, ReservesExactlyTheCapacity) {
  TestState test({.profile = "rtx4050"});
  Client client(test.state());
  const std::uint64_t capacity = DeviceCapacity(test.shared(), 0);
  EXPECT_TRUE(client.ReserveDeviceBytes(0, capacity - kAccountingUnit));
  EXPECT_FALSE(client.ReserveDeviceBytes(0, 2 * kAccountingUnit));
  EXPECT_TRUE(client.ReserveDeviceBytes(0, kAccountingUnit));
  EXPECT_FALSE(client.ReserveDeviceBytes(0, 1));
  EXPECT_EQ(DeviceUsed(test.shared(), 0), capacity);
  client.ReturnDeviceBytes(0, capacity);
  EXPECT_EQ(DeviceUsed(test.shared(), 0), 0u);
  EXPECT_FALSE(client.ReserveDeviceBytes(0, ~std::uint64_t{0})) << "no wrap-around";
}

TEST(Client, GivesBackTheMemoryOfAKilledProcessThatIsStillAZombie) {
  TestState test;
  Client reader(test.state());
  for (const int signal : {SIGKILL, SIGSEGV, SIGTERM, SIGABRT}) {
    Child child([&] {
      static Client client(test.state());
      return client.ReserveDeviceBytes(0, kGiB);
    });
    ASSERT_TRUE(child.succeeded());
    EXPECT_EQ(DeviceUsed(test.shared(), 0), kGiB);
    ASSERT_NE(reader.SlotOf(static_cast<std::uint32_t>(child.pid())), nullptr);
    EXPECT_EQ(reader.SlotOf(static_cast<std::uint32_t>(child.pid()))->name, std::string("sim_state_test"));
    child.Kill(signal);
    reader.SweepDead();
    EXPECT_EQ(DeviceUsed(test.shared(), 0), 0u) << "after signal " << signal;
    EXPECT_TRUE(reader.LiveSlots().empty());
  }
}

TEST(Client, AReservationSweepsBeforeItFails) {
  TestState test;
  const std::uint64_t capacity = DeviceCapacity(test.shared(), 0);
  Child child([&] {
    static Client client(test.state());
    return client.ReserveDeviceBytes(0, capacity);
  });
  ASSERT_TRUE(child.succeeded());
  Client client(test.state());
  EXPECT_FALSE(client.ReserveDeviceBytes(0, kGiB));
  child.Kill(SIGKILL);
  EXPECT_TRUE(client.ReserveDeviceBytes(0, capacity));
}

TEST(Client, ClaimsItsOwnSlotInTheChildAfterAFork) {
  TestState test;
  Client client(test.state());
  ASSERT_TRUE(client.ReserveDeviceBytes(0, kGiB));
  Child child(
      [&] { return OwnBytes(test.state(), client, 0) == 0 && client.ReserveDeviceBytes(0, 2 * kGiB); });
  ASSERT_TRUE(child.succeeded());
  EXPECT_EQ(client.LiveSlots().size(), 2u);
  EXPECT_EQ(OwnBytes(test.state(), client, 0), kGiB);
  EXPECT_EQ(DeviceUsed(test.shared(), 0), 3 * kGiB);
}

TEST(Client, AnInjectedFailureStrikesTheNthReservationOnly) {
  TestState test;
  Client client(test.state());
  test.shared().faults.allocation_fails_in[0].store(2);
  EXPECT_TRUE(client.ReserveDeviceBytes(0, 4096));
  EXPECT_FALSE(client.ReserveDeviceBytes(0, 4096));
  EXPECT_TRUE(client.ReserveDeviceBytes(0, 4096));
}

TEST(Client, CountsKernelTimeAsUtilization) {
  TestState test;
  Client client(test.state());
  ASSERT_NE(client.Slot(), nullptr);
  const std::uint64_t now = MonotonicNs();
  EXPECT_EQ(DeviceUtilization(test.shared(), 0, now), 0u);
  client.KernelBegan(0);
  client.KernelBegan(0);
  client.KernelEnded(0);
  const std::uint64_t since = client.Slot()->gpu[0].busy_since_ns.load();
  EXPECT_GE(since, now) << "the outer kernel still runs";
  EXPECT_EQ(DeviceUtilization(test.shared(), 0, since + 500'000'000), 50u);
  EXPECT_EQ(DeviceUtilization(test.shared(), 0, since + 5'000'000'000), 100u);
  client.KernelEnded(0);
  EXPECT_EQ(client.Slot()->gpu[0].busy_since_ns.load(), 0u);
  EXPECT_EQ(DeviceUtilization(test.shared(), 0, since + 60'000'000'000), 0u);
}

TEST(Liveness, TellsAReusedPidFromTheOldProcess) {
  Liveness liveness(OwnSpace());
  const std::uint64_t own = OwnIdentity();
  ASSERT_NE(own, 0u);
  EXPECT_TRUE(liveness.Watch(own));
  EXPECT_FALSE(liveness.Watch(MakeIdentity(static_cast<std::uint32_t>(getpid()), OwnSpace(), 1)));
  EXPECT_TRUE(liveness.Ended().empty());
  EXPECT_TRUE(liveness.EndedByProc().empty());
}

TEST(Liveness, SurvivesAProgramThatClosesItsDescriptors) {
  Child child([] { return true; });
  const auto pid = static_cast<std::uint32_t>(child.pid());
  const std::uint64_t identity = MakeIdentity(pid, OwnSpace(), *ReadStartTicks(pid));
  Liveness liveness(OwnSpace());
  const int lowest = open("/dev/null", O_RDONLY);
  close(lowest);
  ASSERT_TRUE(liveness.Watch(identity));
  close(lowest);      // the pidfd
  close(lowest + 1);  // the epoll instance
  EXPECT_TRUE(liveness.Ended().empty());
  child.Kill(SIGKILL);
  EXPECT_EQ(liveness.Ended(), std::vector<std::uint64_t>{identity});
  EXPECT_TRUE(liveness.Ended().empty()) << "each is told once";
}

TEST(Liveness, NoticesByProcWhatAClosedDescriptorDoesNotTell) {
  Child child([] { return true; });
  const auto pid = static_cast<std::uint32_t>(child.pid());
  const std::uint64_t identity = MakeIdentity(pid, OwnSpace(), *ReadStartTicks(pid));
  Liveness liveness(OwnSpace());
  const int lowest = open("/dev/null", O_RDONLY);
  close(lowest);
  ASSERT_TRUE(liveness.Watch(identity));
  close(lowest);
  child.Kill(SIGKILL);
  EXPECT_TRUE(liveness.Ended().empty());
  EXPECT_EQ(liveness.EndedByProc(), std::vector<std::uint64_t>{identity});
}

}  // namespace
}  // namespace gpuman::sim
