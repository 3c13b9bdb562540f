#include "sim/state/sharing.h"

#include <gtest/gtest.h>

#include <memory>

namespace gpuman::sim {
namespace {

class SimSharing : public ::testing::Test {
 protected:
  SimSharing() : shared_(std::make_unique<Shared>()) {
    for (unsigned slot = 0; slot < kMaxHolders; ++slot) {
      shared_->processes[slot].owner.store(100 + slot);
      shared_->processes[slot].gpu[0].contexts.store(1);
      shared_->processes[slot].gpu[0].context_created_us.store(1000 + slot);
    }
  }
  void Begin(unsigned slot, std::uint64_t inode) { BeginSharing(*shared_, slot, 0, inode, 8192); }
  std::uint64_t Passed(unsigned slot) { return PassedOn(*shared_, 100 + slot, 0); }

  std::unique_ptr<Shared> shared_;
};

TEST_F(SimSharing, MemoryOfOneHolderCountsOnceAnyway) {
  Begin(0, 7);
  EXPECT_EQ(CountedAgain(*shared_, 0), 0u);
  EXPECT_EQ(Passed(0), 0u);
}

TEST_F(SimSharing, MemoryOfTwoHoldersCountsOnceForTheYoungerOne) {
  Begin(0, 7);
  Begin(1, 7);
  EXPECT_EQ(CountedAgain(*shared_, 0), 2u);
  EXPECT_EQ(CountedAgain(*shared_, 1), 0u);
  EXPECT_EQ(Passed(0), 2u);
  EXPECT_EQ(Passed(1), 0u);
  EndSharing(*shared_, 1, 7);
  EXPECT_EQ(CountedAgain(*shared_, 0), 0u);
  EXPECT_EQ(Passed(0), 0u);
}

TEST_F(SimSharing, MemoryOfManyHoldersCountsOnce) {
  for (unsigned slot = 0; slot < kMaxHolders; ++slot) Begin(slot, 7);
  EXPECT_EQ(CountedAgain(*shared_, 0), 2u * (kMaxHolders - 1));
  EXPECT_GE(kMaxHolders, 9u) << "a rank on each of eight GPUs, and the mover";
}

TEST_F(SimSharing, ADeadProcessHoldsNothing) {
  Begin(0, 7);
  Begin(1, 7);
  shared_->processes[1].owner.store(0);
  EXPECT_EQ(CountedAgain(*shared_, 0), 0u);
  shared_->processes[0].owner.store(200);  // another process
  Begin(2, 8);
  Begin(3, 8);
  EXPECT_EQ(CountedAgain(*shared_, 0), 2u);
  EXPECT_EQ(shared_->sharing_limit.load(), 1u) << "the place is used again";
}

}  // namespace
}  // namespace gpuman::sim
