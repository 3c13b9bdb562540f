#include "suspend/would_stay.h"

#include <gtest/gtest.h>

namespace gpuman::suspend {
namespace {

using base::Bytes;
using base::GiB;
using base::MiB;

ObservedProcess WithShim(pid_t pid, std::map<std::string, GpuFootprint> gpus, bool shares = false) {
  ObservedProcess view;
  view.id = {pid, 1};
  view.gpus = std::move(gpus);
  view.has_shim = true;
  view.shares = shares;
  return view;
}

TEST(WouldStay, NothingStaysWhereTheDriverTakesTheRest) {
  const std::vector<ObservedProcess> job{WithShim(1, {{"a", {GiB(10), GiB(9), {}}}})};
  EXPECT_EQ(WouldStay(job, true), BytesByGpu{});
  EXPECT_EQ(WouldStay(job, std::nullopt), BytesByGpu{});
  EXPECT_EQ(WouldStay(job, false), (BytesByGpu{{"a", GiB(1)}}));
}

TEST(WouldStay, UnevictableMemoryOfJobThatSharesMemoryStays) {
  auto without = WithShim(3, {{"a", {GiB(2), {}, {}}}});
  without.has_shim = false;
  const std::vector<ObservedProcess> job{
      WithShim(1, {{"a", {GiB(10), GiB(9), {}}}, {"b", {GiB(3), {}, {}}}}, true),
      WithShim(2, {{"b", {GiB(11), GiB(9), {}}}}), without};
  EXPECT_EQ(WouldStay(job, true), (BytesByGpu{{"a", GiB(1)}, {"b", GiB(5)}}))
      << "the driver takes what has no shim";
  EXPECT_EQ(WouldStay(job, false), (BytesByGpu{{"a", GiB(3)}, {"b", GiB(5)}}));
}

TEST(WouldStay, AtLeastTheContextStaysWhereFiguresAreOldOrMissing) {
  GpuFootprint old{GiB(1), GiB(9), {}, MiB(500)}, away{{}, {}, GiB(9), MiB(500)};
  EXPECT_EQ(WouldStay({WithShim(1, {{"a", old}}, true)}, true), (BytesByGpu{{"a", MiB(500)}}));
  EXPECT_EQ(WouldStay({WithShim(1, {{"a", away}}, true)}, true), (BytesByGpu{{"a", MiB(500)}}));
}

TEST(SteadyResidualEstimator, GrowthCountsOnceItLastsAndThenByItsLeastValue) {
  const auto at = [](int milliseconds) { return base::MonoTime(std::chrono::milliseconds(milliseconds)); };
  const auto on_a = [](Bytes bytes) { return BytesByGpu{{"a", bytes}}; };
  SteadyResidualEstimator estimate;
  EXPECT_EQ(estimate.Add(on_a(GiB(1)), at(0)), on_a(GiB(1)));
  EXPECT_EQ(estimate.Add(on_a(GiB(9)), at(100)), on_a(GiB(1))) << "its memory is just leaving";
  EXPECT_EQ(estimate.Add(on_a(GiB(1)), at(200)), on_a(GiB(1)));
  EXPECT_EQ(estimate.Add(on_a(GiB(3)), at(300)), on_a(GiB(1)));
  EXPECT_EQ(estimate.Add(on_a(GiB(2)), at(400)), on_a(GiB(1)));
  EXPECT_EQ(estimate.Add(on_a(GiB(4)), at(799)), on_a(GiB(1)));
  EXPECT_EQ(estimate.Add(on_a(GiB(4)), at(800)), on_a(GiB(2)));
  EXPECT_EQ(estimate.Add(on_a(MiB(5)), at(801)), on_a(MiB(5))) << "what falls counts at once";
  EXPECT_EQ(estimate.Add({}, at(802)), BytesByGpu{});
  EXPECT_EQ(estimate.Add({{"b", GiB(7)}}, at(803)), (BytesByGpu{{"b", GiB(7)}}));
}

}  // namespace
}  // namespace gpuman::suspend
