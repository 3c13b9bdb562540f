#include "daemon/suspension/own_movers.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

constexpr base::ProcessId kFirst{41, 700}, kSecond{42, 800}, kReused{41, 900};
const base::MonoTime kNow{std::chrono::hours(5)};

class OwnMoversTest : public ::testing::Test {
 protected:
  bool Refresh(OwnMovers& movers, const std::set<pid_t>& linked, base::MonoTime now = kNow) const {
    return movers.Refresh(
        linked, [this](const base::ProcessId& mover) { return there.contains(mover); }, now);
  }
  std::set<base::ProcessId> there{kFirst, kSecond};
  OwnMovers own{"this boot"};
};

TEST_F(OwnMoversTest, OnlyStartedMoversAreOwn) {
  own.Add(kFirst);
  EXPECT_FALSE(Refresh(own, {41}));
  EXPECT_EQ(own.Pids(), std::set<pid_t>{41}) << "the other one is of another daemon";
}

TEST_F(OwnMoversTest, MoverIsOwnUntilItEndsEvenWithoutConnection) {
  own.Add(kFirst);
  own.Add(kSecond);
  EXPECT_FALSE(Refresh(own, {42}));
  EXPECT_EQ(own.Pids(), (std::set<pid_t>{41, 42}));
  there = {kSecond};
  EXPECT_TRUE(Refresh(own, {42}));
  EXPECT_EQ(own.Pids(), std::set<pid_t>{42});
}

TEST_F(OwnMoversTest, ReusedPidIsNotAnOwnMover) {
  own.Add(kFirst);
  there = {kReused};
  EXPECT_TRUE(Refresh(own, {}));
  EXPECT_TRUE(own.Pids().empty());
}

TEST_F(OwnMoversTest, ReleasedMoverThatDoesNotEndInTimeIsNotOwn) {
  own.Add(kFirst);
  own.Add(kSecond);
  Refresh(own, {42});
  EXPECT_FALSE(Refresh(own, {42}, kNow + OwnMovers::kFarewell - base::Millis(1)));
  EXPECT_TRUE(Refresh(own, {42}, kNow + OwnMovers::kFarewell));
  EXPECT_EQ(own.Pids(), std::set<pid_t>{42}) << "the daemon still talks with this one";
}

TEST_F(OwnMoversTest, MoversOfThePreviousDaemonAreRecalled) {
  own.Add(kFirst);
  own.Add(kSecond);
  OwnMovers next("this boot");
  ASSERT_TRUE(next.Recall(own.Record(), kNow));
  there = {kSecond, kReused};
  Refresh(next, {});
  EXPECT_EQ(next.Pids(), std::set<pid_t>{42}) << "the other one has ended, and somebody has its pid";
  EXPECT_TRUE(Refresh(next, {}, kNow + OwnMovers::kFarewell));
  EXPECT_TRUE(next.Pids().empty());
}

TEST_F(OwnMoversTest, MoversOfAnotherBootAreForgotten) {
  own.Add(kFirst);
  OwnMovers next("another boot");
  ASSERT_TRUE(next.Recall(own.Record(), kNow));
  EXPECT_TRUE(next.Pids().empty());
}

TEST_F(OwnMoversTest, InvalidRecordIsRefused) {
  EXPECT_FALSE(own.Recall("[41]", kNow));
  EXPECT_TRUE(own.Pids().empty());
}

}  // namespace
}  // namespace gpuman::daemon
