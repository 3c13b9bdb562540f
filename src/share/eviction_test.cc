#include "share/eviction.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace gpuman::share {
namespace {

using base::Bytes;
using base::GiB;
using base::MiB;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

std::vector<EvictionCandidate> Alike(const std::vector<Bytes>& sizes) {
  std::vector<EvictionCandidate> tenants;
  tenants.reserve(sizes.size());
  for (const Bytes size : sizes) tenants.push_back({size, 6s});
  return tenants;
}

TEST(DivideEviction, TenantsThatAreUsedEquallyOftenGiveDownToOneLevel) {
  EXPECT_EQ(DivideEviction(Alike({GiB(12), GiB(12), GiB(12)}), GiB(12)),
            (std::vector{GiB(4), GiB(4), GiB(4)}));
  EXPECT_EQ(DivideEviction(Alike({GiB(6), GiB(12), GiB(6)}), GiB(6)),
            (std::vector{Bytes{}, GiB(6), Bytes{}}));
  EXPECT_EQ(DivideEviction(Alike({GiB(6), GiB(12), GiB(6)}), GiB(12)), (std::vector{GiB(2), GiB(8), GiB(2)}));
}

TEST(DivideEviction, NobodyGivesASmallPartBesideOthers) {
  EXPECT_EQ(DivideEviction(Alike({GiB(6), GiB(6), GiB(6)}), GiB(2)), (std::vector{GiB(1), GiB(1), Bytes{}}));
  EXPECT_EQ(DivideEviction(Alike({GiB(12), GiB(11)}), GiB(2)), (std::vector{GiB(2), Bytes{}}))
      << "the other would give half of one";
}

TEST(DivideEviction, RoomThatIsTooSmallToBeDividedComesFromTheFirst) {
  EXPECT_EQ(DivideEviction(Alike({MiB(100), MiB(300), MiB(200)}), MiB(150)),
            (std::vector{MiB(100), MiB(50), Bytes{}}));
}

TEST(DivideEviction, ATenantThatIsUsedSeldomGivesFirst) {
  const std::vector<EvictionCandidate> tenants{{GiB(10), 6s}, {GiB(10), 600s}, {GiB(10), 5s}};
  EXPECT_EQ(DivideEviction(tenants, GiB(8)), (std::vector{Bytes{}, GiB(8), Bytes{}}));
  EXPECT_EQ(DivideEviction(tenants, GiB(14)), (std::vector{GiB(2), GiB(10), GiB(2)}));
}

TEST(DivideEviction, MoreThanAllHaveTakesAllThatTheyHave) {
  EXPECT_EQ(DivideEviction(Alike({GiB(3), MiB(1), GiB(2)}), GiB(90)), (std::vector{GiB(3), MiB(1), GiB(2)}));
  EXPECT_TRUE(DivideEviction({}, GiB(1)).empty());
}

RC_GTEST_PROP(DivideEvictionProperty, GivesWhatIsAskedForAndNobodyGivesMoreThanItHas, ()) {
  std::vector<EvictionCandidate> tenants;
  const auto count = *rc::gen::inRange<std::size_t>(0, 9);
  tenants.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    tenants.push_back(
        {MiB(*rc::gen::inRange<std::uint64_t>(0, 20'000)), std::chrono::seconds(*rc::gen::inRange(0, 100))});
  const Bytes bytes = MiB(*rc::gen::inRange<std::uint64_t>(0, 200'000)) + Bytes{*rc::gen::inRange(0u, 9u)};
  const std::vector<Bytes> gives = DivideEviction(tenants, bytes);
  RC_ASSERT(gives.size() == tenants.size());
  Bytes all, given;
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    RC_ASSERT(gives[i] <= tenants[i].resident);
    all += tenants[i].resident;
    given += gives[i];
  }
  RC_ASSERT(given == std::min(all, bytes));
}

}  // namespace
}  // namespace gpuman::share
