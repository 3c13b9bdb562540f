// Many processes, each with several threads, change one ledger at once, and are killed meanwhile.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "ledger/ledgers.h"
#include "ledger/test_reclaim.h"
#include "ledger/wire/reclaim.h"
#include "ledger/wire/slot_balance.h"

namespace gpuman::ledger {
namespace {

using wire::ChargeOutcome;

constexpr unsigned kProcesses = 8, kThreads = 4;
constexpr std::uint64_t kLimit = 100 * wire::kUnit;
const std::string kUuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";

// The threads of one process make one change of a slot at a time, as the shim's do.
void Work(wire::Ledger& ledger, unsigned slot, unsigned steps, bool ends_empty) {
  std::mutex mutex;
  const auto run = [&](unsigned seed) {
    std::minstd_rand random(seed);
    std::vector<std::uint64_t> held;
    for (unsigned i = 0; i < steps; ++i) {
      const std::uint64_t bytes = (random() % 30 + 1) * wire::kUnit;
      const std::lock_guard lock(mutex);
      if (random() % 2 == 0) {
        if (wire::Reserve(ledger, 0, slot, bytes) == ChargeOutcome::kDone) held.push_back(bytes);
      } else if (!held.empty()) {
        if (wire::GiveBack(ledger, 0, slot, held.back()) != ChargeOutcome::kDone) ::_exit(3);
        held.pop_back();
      }
      if (wire::TotalOf(ledger, 0) > kLimit) ::_exit(4);
    }
    const std::lock_guard lock(mutex);
    if (ends_empty)
      for (const auto bytes : held) wire::GiveBack(ledger, 0, slot, bytes);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(run, slot * 100 + i + 1);
  for (auto& thread : threads) thread.join();
}

class BooksRace : public testing::Test {
 protected:
  BooksRace() {
    EXPECT_TRUE(ledgers_.Create(job_, std::vector{GpuLimit{kUuid, base::Bytes{kLimit}, {}, {}}}));
  }

  // A process that has joined as the shim does: only the mapping holds its slot.
  template <typename Body>
  pid_t Start(Body body) {
    auto joined = ledgers_.Join(job_, base::SelfId());
    EXPECT_TRUE(joined);
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    void* const at =
        ::mmap(nullptr, sizeof(wire::Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, joined->owner.get(), 0);
    if (at == MAP_FAILED) ::_exit(2);
    body(*static_cast<wire::Ledger*>(at), joined->slot, joined->file.get());
    ::_exit(0);
  }
  // Kills each process a moment after the one before; none of them has ended by itself.
  static void KillAll(const std::vector<pid_t>& children, std::minstd_rand& random) {
    for (const pid_t child : children) {
      ::usleep(static_cast<useconds_t>(random() % 3000));
      ::kill(child, SIGKILL);
    }
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status)) << "exit status " << WEXITSTATUS(status);
    }
  }
  std::uint64_t Used() { return ledgers_.UsageOf(job_).at(0).used.count; }

  base::JobId job_{1};
  Ledgers ledgers_;
};

TEST_F(BooksRace, TheLimitHoldsAndTheBooksEndAtZero) {
  // They begin once all have joined: a process that joins takes over the slot of one that has ended.
  std::array<int, 2> begin{};
  ASSERT_EQ(::pipe2(begin.data(), O_CLOEXEC), 0);
  std::vector<pid_t> children;
  for (unsigned i = 0; i < kProcesses; ++i)
    children.push_back(Start([&begin](wire::Ledger& ledger, unsigned slot, int) {
      char none = 0;
      ::close(begin[1]);
      if (::read(begin[0], &none, 1) != 0) ::_exit(5);
      Work(ledger, slot, 20'000, true);
    }));
  ::close(begin[0]);
  ::close(begin[1]);
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Used(), 0u);
  EXPECT_EQ(ReclaimEnded(job_), kProcesses);
}

// Some are killed at any instruction, while others go on and reclaim what they had.
TEST_F(BooksRace, MemoryOfKilledProcessesIsReclaimedToTheByte) {
  std::minstd_rand random(7);
  for (int round = 0; round < 30; ++round) {
    std::vector<pid_t> children;
    for (unsigned i = 0; i < 4; ++i)
      children.push_back(
          Start([](wire::Ledger& ledger, unsigned slot, int) { Work(ledger, slot, UINT32_MAX, false); }));
    const pid_t reclaims = Start([](wire::Ledger& ledger, unsigned slot, int file) {
      for (;;) {
        wire::ReclaimSlots(ledger, file, slot);
        if (wire::TotalOf(ledger, 0) > kLimit) ::_exit(4);
      }
    });
    children.push_back(reclaims);
    KillAll(children, random);
    ReclaimEnded(job_);
    ASSERT_EQ(Used(), 0u) << "round " << round;
  }
}

// Processes claim homes and are killed at any instruction, while another process and the daemon reclaim what
// they had. No two living processes ever have the same entry, and in the end none is left.
TEST_F(BooksRace, HomesBelongToOneProcessAndComeBackWhenItIsKilled) {
  std::minstd_rand random(11);
  for (int round = 0; round < 30; ++round) {
    std::vector<pid_t> children;
    for (unsigned i = 0; i < 6; ++i)
      children.push_back(Start([](wire::Ledger& ledger, unsigned slot, int) {
        for (std::uint64_t number = 1;; ++number) {
          const unsigned gpu = static_cast<unsigned>(number % wire::kMaxGpus);
          const int home = wire::ClaimHome(ledger, slot, gpu);
          if (home < 0) continue;  // the table is full: six processes with sixteen GPUs want more than it has
          wire::EvictableGpuEntry& mine = ledger.home[home];
          wire::Store(mine.evictable, slot + 1);
          if (wire::GpuOfOwner(wire::Load(mine.owner), slot) != static_cast<int>(gpu) ||
              wire::Load(mine.evictable) != slot + 1)
            ::_exit(4);
        }
      }));
    children.push_back(Start([](wire::Ledger& ledger, unsigned slot, int file) {
      for (;;) wire::ReclaimSlots(ledger, file, slot);
    }));
    KillAll(children, random);
    ReclaimEnded(job_);
    auto joined = ledgers_.Join(job_, base::SelfId());  // to see the ledger
    ASSERT_TRUE(joined);
    void* const at =
        ::mmap(nullptr, sizeof(wire::Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, joined->owner.get(), 0);
    ASSERT_NE(at, MAP_FAILED);
    for (const wire::EvictableGpuEntry& home : static_cast<wire::Ledger*>(at)->home) {
      ASSERT_EQ(home.owner, 0u) << "round " << round;
      ASSERT_EQ(home.evictable, 0u);
    }
    ::munmap(at, sizeof(wire::Ledger));
  }
}

std::string UuidNumber(unsigned number) {
  char text[64];
  std::snprintf(text, sizeof text, "GPU-00000000-0000-0000-0000-%012x", number + 1);
  return text;
}

// The count is checked and then used as checked: there is room for 16 GPUs, and the memory behind them stays
// as it is.
TEST_F(BooksRace, ACountOfGpusThatChangesAllTheTimeIsFollowedNowhere) {
  constexpr std::uint32_t kGpuCount = 3, kTooMany = 20;
  auto joined = ledgers_.Join(job_, base::SelfId());
  ASSERT_TRUE(joined);
  void* const at =
      ::mmap(nullptr, sizeof(wire::Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, joined->owner.get(), 0);
  ASSERT_NE(at, MAP_FAILED);
  wire::Ledger& ledger = *static_cast<wire::Ledger*>(at);
  std::atomic<bool> over = false;
  std::thread writer([&] {
    while (!over) {
      wire::Store(ledger.gpus, kTooMany);
      wire::Store(ledger.gpus, kGpuCount);
    }
  });
  for (unsigned i = 0; i < 20'000; ++i) {
    const std::vector limits{GpuLimit{UuidNumber(i), base::Bytes{kLimit}, {}, {}}};
    (void)ledgers_.SetLimits(job_, limits).has_value();
    (void)ledgers_.Intact(job_);
    EXPECT_LT(wire::FindGpu(ledger, "not one of them."), 0);
  }
  over = true;
  writer.join();
  EXPECT_TRUE(
      std::ranges::all_of(ledger.home, [](const wire::EvictableGpuEntry& home) { return home.owner == 0; }));
  EXPECT_EQ(ledger.instances, 0u) << "none of them is a MIG instance";
  ::munmap(at, sizeof(wire::Ledger));
}

}  // namespace
}  // namespace gpuman::ledger
