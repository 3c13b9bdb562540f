#include "jobs/shared.h"

#include <gtest/gtest.h>

#include "jobs/environment.h"

namespace gpuman::jobs {
namespace {

using EnvironmentPool = ValueDeduplicator<Variables, VariablesHash>;

TEST(ValueDeduplicator, MakesEqualOnesOne) {
  EnvironmentPool pool;
  const auto first = pool.Share(Variables{{"PATH", "/bin"}, {"HOME", "/root"}});
  const auto other = pool.Share(Variables{{"PATH", "/sbin"}, {"HOME", "/root"}});
  const auto again = pool.Share(Variables{{"HOME", "/root"}, {"PATH", "/bin"}});
  const auto neighbour = pool.Share(Variables{{"HOME", "/root"}, {"PATH", "/bin"}});
  EXPECT_EQ(first.pointer(), again.pointer());
  EXPECT_EQ(first.pointer(), neighbour.pointer());
  EXPECT_NE(first.pointer(), other.pointer());
  EXPECT_EQ(other->at("PATH"), "/sbin");
}

TEST(ValueDeduplicator, KeepsNothingAlive) {
  EnvironmentPool pool;
  std::weak_ptr<const Variables> gone;
  gone = pool.Share(Variables{{"A", "1"}}).pointer();
  EXPECT_TRUE(gone.expired());
  const auto again = pool.Share(Variables{{"A", "1"}});
  EXPECT_EQ(again->at("A"), "1");
  EXPECT_EQ(again.pointer(), pool.Share(Variables{{"A", "1"}}).pointer());
}

TEST(ValueDeduplicator, FindsWhatIsInUseAmongManyThatAreGone) {
  EnvironmentPool pool;
  const auto kept = pool.Share(Variables{{"A", "kept"}});
  for (int i = 0; i < 1000; ++i) pool.Share(Variables{{"A", std::to_string(i)}});
  EXPECT_EQ(kept.pointer(), pool.Share(Variables{{"A", "kept"}}).pointer());
}

TEST(Shared, TheEmptyValueIsOneWhereverItComesFrom) {
  EnvironmentPool pool, other;
  const Environment none, empty{Variables()};
  EXPECT_EQ(none, empty);
  EXPECT_TRUE(none->empty());
  EXPECT_EQ(none.pointer(), empty.pointer());
  EXPECT_EQ(pool.Share(none).pointer(), other.Share(empty).pointer());
}

TEST(Shared, AMovedFromValueIsEmpty) {
  Environment one = Variables{{"A", "1"}};
  const Environment other = std::move(one);
  EXPECT_TRUE(one->empty());  // NOLINT(bugprone-use-after-move): this is what is asked
  EXPECT_EQ(other->at("A"), "1");
}

TEST(Shared, IsEqualByContent) {
  const Environment one = Variables{{"A", "1"}}, same = Variables{{"A", "1"}}, other = Variables{{"A", "2"}};
  EXPECT_EQ(one, same);
  EXPECT_FALSE(one == other);
  EXPECT_FALSE(one == Environment());
}

}  // namespace
}  // namespace gpuman::jobs
