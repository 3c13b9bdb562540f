#include "sim/state/identity.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include <algorithm>
#include <vector>

#include "sim/state/state.h"
#include "sim/state/test_state.h"

namespace gpuman::sim {
namespace {

constexpr std::uint64_t kGpuGiB = std::uint64_t{1} << 30;

// Enters namespaces as a container runtime does: the first process of a pid namespace, with a /proc of its
// own. False where that is not allowed.
bool EnterNamespaces() {
  return unshare(CLONE_NEWPID | CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}
bool MountProc() { return mount("proc", "/proc", "proc", 0, nullptr) == 0; }

bool NamespacesAreAllowed() {
  Child child([] {
    if (!EnterNamespaces()) return false;
    const pid_t inner = fork();
    if (inner == 0) _exit(MountProc() ? 0 : 1);
    int status = 1;
    return waitpid(inner, &status, 0) == inner && status == 0;
  });
  return child.succeeded();
}

// A process in a container that runs `body` and then waits until it is killed.
class Contained {
 public:
  explicit Contained(const std::function<bool()>& body)
      : outer_([&] {
          if (!EnterNamespaces()) return false;
          std::array<int, 2> ready{};
          if (pipe(ready.data()) != 0) return false;
          const pid_t inner = fork();
          if (inner == 0) {
            const char answer = MountProc() && body() ? '1' : '0';
            if (write(ready[1], &answer, 1) != 1) _exit(2);
            for (;;) pause();
          }
          close(ready[1]);
          if (inner < 0) return false;
          *pid_ = inner;
          char answer = '0';
          return read(ready[0], &answer, 1) == 1 && answer == '1';
        }) {}
  ~Contained() {
    Kill();
    munmap(pid_, sizeof(pid_t));
  }
  Contained(const Contained&) = delete;
  Contained& operator=(const Contained&) = delete;

  bool succeeded() const { return outer_.succeeded(); }
  // Its pid outside the container.
  std::uint32_t pid() const { return static_cast<std::uint32_t>(*pid_); }
  void Kill() {
    if (*pid_ <= 0) return;
    kill(*pid_, SIGKILL);
    while (ReadStartTicks(pid())) usleep(1000);
    *pid_ = 0;
  }

 private:
  pid_t* pid_ = static_cast<pid_t*>(
      mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Child outer_;
};

class IdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!NamespacesAreAllowed()) GTEST_SKIP() << "may not make namespaces";
  }
  TestState test_;
};

TEST_F(IdentityTest, TheMachineKnowsAProcessInAContainerByItsOwnNumberForIt) {
  Client reader(test_.state());
  Contained contained([&] {
    static Client client(test_.state());
    return getpid() == 1 && client.ReserveDeviceBytes(0, kGpuGiB);
  });
  ASSERT_TRUE(contained.succeeded());
  const auto slots = reader.LiveSlots();
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_EQ(reader.PidOf(*slots[0]), contained.pid());
  EXPECT_EQ(reader.SlotOf(contained.pid()), slots[0]);
  EXPECT_EQ(DeviceUsed(test_.shared(), 0), kGpuGiB);
  contained.Kill();
  EXPECT_TRUE(reader.LiveSlots().empty());
  EXPECT_EQ(DeviceUsed(test_.shared(), 0), 0u);
}

TEST_F(IdentityTest, FirstProcessesOfTwoContainersAreTwo) {
  const auto reserve = [&] {
    static Client client(test_.state());
    return client.ReserveDeviceBytes(0, kGpuGiB);
  };
  Contained one(reserve);
  Contained two(reserve);
  ASSERT_TRUE(one.succeeded() && two.succeeded());
  Client reader(test_.state());
  std::vector<std::uint32_t> pids;
  for (const ProcessSlot* slot : reader.LiveSlots()) pids.push_back(reader.PidOf(*slot));
  EXPECT_THAT(pids, testing::UnorderedElementsAre(one.pid(), two.pid()));
  one.Kill();
  ASSERT_EQ(reader.LiveSlots().size(), 1u);
  EXPECT_EQ(reader.PidOf(*reader.LiveSlots()[0]), two.pid());
}

TEST_F(IdentityTest, AContainerSeesItsOwnProcessesAloneAndTakesNothingFromOthers) {
  Client outside(test_.state());
  ASSERT_TRUE(outside.ReserveDeviceBytes(0, kGpuGiB));
  Contained contained([&] {
    Client inside(test_.state());
    if (inside.Slot() == nullptr) return false;
    const auto slots = inside.LiveSlots();
    return slots.size() == 2 &&
           std::count_if(slots.begin(), slots.end(),
                         [&](const ProcessSlot* slot) { return inside.PidOf(*slot) == 1; }) == 1 &&
           inside.SlotOf(1) == inside.Slot();
  });
  EXPECT_TRUE(contained.succeeded());
  EXPECT_EQ(DeviceUsed(test_.shared(), 0), kGpuGiB);
}

TEST_F(IdentityTest, AContainerGivesBackWhatItsDeadHeld) {
  Contained contained([&] {
    Client inside(test_.state());
    Child child([&] {
      static Client client(test_.state());
      return client.ReserveDeviceBytes(0, kGpuGiB);
    });
    if (!child.succeeded() || DeviceUsed(test_.shared(), 0) != kGpuGiB) return false;
    child.Kill(SIGKILL);
    inside.SweepDead();
    return DeviceUsed(test_.shared(), 0) == 0;
  });
  EXPECT_TRUE(contained.succeeded());
}

}  // namespace
}  // namespace gpuman::sim
