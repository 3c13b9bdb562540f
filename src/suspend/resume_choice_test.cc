#include "suspend/resume_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace gpuman::suspend {
namespace {

using base::GiB;
using base::JobId;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

base::MonoTime At(int seconds) { return base::MonoTime(std::chrono::seconds(seconds)); }

ResumeCandidate Job(int id, int priority, int since, BytesByGpu needs) {
  return {JobId{id}, priority, At(since), std::move(needs)};
}

std::vector<JobId> ChooseToResume(std::vector<ResumeCandidate> candidates, BytesByGpu free) {
  RoomSince since;
  return suspend::ChooseToResume(std::move(candidates), std::move(free), At(100), since).now;
}

TEST(ChooseToResume, TakesWhatFits) {
  EXPECT_THAT(
      ChooseToResume({Job(1, 128, 0, {{"a", GiB(4)}}), Job(2, 128, 1, {{"a", GiB(4)}})}, {{"a", GiB(8)}}),
      ElementsAre(JobId{1}, JobId{2}));
  EXPECT_THAT(ChooseToResume({Job(1, 128, 0, {{"a", GiB(4)}})}, {{"a", GiB(3)}}), IsEmpty());
  EXPECT_THAT(ChooseToResume({}, {{"a", GiB(3)}}), IsEmpty());
}

TEST(ChooseToResume, MoreImportantFirstThenWhoWaitsLonger) {
  EXPECT_THAT(ChooseToResume({Job(1, 100, 0, {{"a", GiB(4)}}), Job(2, 200, 5, {{"a", GiB(4)}}),
                              Job(3, 200, 4, {{"a", GiB(4)}})},
                             {{"a", GiB(9)}}),
              ElementsAre(JobId{3}, JobId{2}));
}

TEST(ChooseToResume, ASmallJobDoesNotPassABigOneThatWaits) {
  EXPECT_THAT(
      ChooseToResume({Job(1, 200, 0, {{"a", GiB(40)}}), Job(2, 100, 0, {{"a", GiB(1)}})}, {{"a", GiB(9)}}),
      IsEmpty());
}

TEST(ChooseToResume, ABlockedJobHoldsItsOwnGpusAlone) {
  EXPECT_THAT(ChooseToResume({Job(1, 200, 0, {{"a", GiB(40)}}), Job(2, 100, 0, {{"b", GiB(1)}})},
                             {{"a", GiB(9)}, {"b", GiB(9)}}),
              ElementsAre(JobId{2}));
}

TEST(ChooseToResume, AJobOnSeveralGpusNeedsRoomOnEach) {
  const BytesByGpu both{{"a", GiB(4)}, {"b", GiB(4)}};
  EXPECT_THAT(ChooseToResume({Job(1, 1, 0, both)}, {{"a", GiB(9)}, {"b", GiB(3)}}), IsEmpty());
  EXPECT_THAT(ChooseToResume({Job(1, 1, 0, both)}, {{"a", GiB(9)}}), IsEmpty()) << "b is not known";
  EXPECT_THAT(ChooseToResume({Job(1, 1, 0, both)}, {{"a", GiB(9)}, {"b", GiB(4)}}), ElementsAre(JobId{1}));
}

TEST(ChooseToResume, AJobThatHoldsNothingReturnsAtOnce) {
  EXPECT_THAT(ChooseToResume({Job(1, 1, 0, {}), Job(2, 1, 0, {{"a", {0}}})}, {}),
              ElementsAre(JobId{1}, JobId{2}));
}

TEST(ChooseToResume, RoomHasToLastWithoutABreakForOneThatWasPushedOff) {
  ResumeCandidate pushed = Job(1, 200, 0, {{"a", GiB(4)}});
  pushed.room_lasts = base::Millis(10'000);
  const ResumeCandidate other = Job(2, 100, 0, {{"a", GiB(2)}});
  RoomSince since;
  const auto at = [&](int second, std::uint64_t free) {
    return suspend::ChooseToResume({pushed, other}, {{"a", GiB(free)}}, At(second), since);
  };
  EXPECT_THAT(at(0, 5).soon, ElementsAre(JobId{1}));
  EXPECT_THAT(at(1, 5).now, IsEmpty()) << "its room is kept for it";
  EXPECT_THAT(at(2, 6).now, ElementsAre(JobId{2})) << "what is beside that is not";
  EXPECT_THAT(at(9, 3).soon, IsEmpty());
  EXPECT_THAT(at(10, 4).soon, ElementsAre(JobId{1})) << "from the beginning";
  EXPECT_THAT(at(19, 4).now, IsEmpty());
  EXPECT_THAT(at(20, 4).now, ElementsAre(JobId{1}));
}

TEST(ChooseToResumeProperty, NeverGivesMoreThanThereIsAndAlwaysServesTheFirst) {
  EXPECT_TRUE(rc::check("fits", [] {
    std::vector<ResumeCandidate> candidates;
    for (int id = *rc::gen::inRange(0, 6); id > 0; --id) {
      candidates.push_back(Job(id, *rc::gen::inRange(0, 3), *rc::gen::inRange(0, 3), {}));
      for (const char* gpu : {"a", "b"})
        if (*rc::gen::arbitrary<bool>())
          candidates.back().needs[gpu] = GiB(*rc::gen::inRange<std::uint64_t>(0, 9));
    }
    const BytesByGpu free{{"a", GiB(*rc::gen::inRange<std::uint64_t>(0, 20))}, {"b", GiB(8)}};
    const auto chosen = ChooseToResume(candidates, free);
    BytesByGpu taken;
    for (const JobId job : chosen)
      for (const auto& candidate : candidates)
        if (candidate.job == job)
          for (const auto& [gpu, bytes] : candidate.needs) taken[gpu] += bytes;
    for (const auto& [gpu, bytes] : taken) RC_ASSERT(bytes <= free.at(gpu));
  }));
}

TEST(UnsampledMemoryTracker, CountUntilASampleThatBeganAfterThemShowsThem) {
  UnsampledMemoryTracker arrivals;
  arrivals.Add(At(5), {{"a", GiB(4)}, {"b", GiB(1)}});
  arrivals.Add(At(7), {{"a", GiB(1)}});
  const auto left = [&](int a, int b) {
    BytesByGpu free{{"a", GiB(8)}, {"b", GiB(8)}};
    arrivals.TakeFrom(free, {{"a", At(a)}, {"b", At(b)}});
    return free;
  };
  EXPECT_EQ(left(5, 6), (BytesByGpu{{"a", GiB(3)}, {"b", GiB(8)}})) << "a sample of that moment may be older";
  EXPECT_EQ(left(6, 6), (BytesByGpu{{"a", GiB(7)}, {"b", GiB(8)}}));
  EXPECT_EQ(left(8, 6), (BytesByGpu{{"a", GiB(8)}, {"b", GiB(8)}}));
}

}  // namespace
}  // namespace gpuman::suspend
