#include "jobs/environment.h"

#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

TEST(EnvironmentPool, MakesEqualOnesOne) {
  EnvironmentPool pool;
  const auto first = pool.Share(Environment{{"PATH", "/bin"}, {"HOME", "/root"}});
  const auto second = pool.Share(Environment{{"HOME", "/root"}, {"PATH", "/bin"}});
  const auto other = pool.Share(Environment{{"PATH", "/sbin"}, {"HOME", "/root"}});
  EXPECT_TRUE(first.shares_memory_with(second));
  EXPECT_FALSE(first.shares_memory_with(other));
  EXPECT_EQ(other.variables().at("PATH"), "/sbin");
}

TEST(EnvironmentPool, KeepsNothingAlive) {
  EnvironmentPool pool;
  { const auto gone = pool.Share(Environment{{"A", "1"}}); }
  const auto again = pool.Share(Environment{{"A", "1"}});
  EXPECT_EQ(again.variables().at("A"), "1");
  EXPECT_TRUE(again.shares_memory_with(pool.Share(Environment{{"A", "1"}})));
}

TEST(EnvironmentPool, SharesTheEmptyOne) {
  EnvironmentPool pool;
  EXPECT_TRUE(pool.Share(Environment()).shares_memory_with(pool.Share(Environment())));
}

TEST(Environment, IsEqualByContent) {
  const Environment one{{"A", "1"}}, same{{"A", "1"}}, other{{"A", "2"}};
  EXPECT_EQ(one, same);
  EXPECT_FALSE(one == other);
}

}  // namespace
}  // namespace gpuman::jobs
