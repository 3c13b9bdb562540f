#include "jobs/arrival.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace gpuman::jobs {
namespace {

constexpr JobIdRange kJobs{{10}, {2509}};

// A disk on which at most `room` jobs can be deleted before the log is emptied; each failure empties it.
class FullDisk {
 public:
  explicit FullDisk(std::size_t room) : room_(room) {
    for (JobId id = kJobs.first; id <= kJobs.last; ++id.value) there_.insert(id);
  }
  base::Result<> Write(const ArrivalRemover::Step& step) {
    if (step.erase.size() > free_) {
      free_ = room_;
      return base::Fail(base::ErrorCode::kExhausted, "full");
    }
    free_ -= step.erase.size();
    for (const JobId id : step.erase) there_.erase(id);
    marked_ = marked_ && !step.unset;
    return {};
  }
  const std::set<JobId>& there() const { return there_; }
  bool marked() const { return marked_; }

 private:
  std::size_t room_, free_ = 0;
  std::set<JobId> there_;
  bool marked_ = true;
};

TEST(Arrival, KeyTellsItsJobs) {
  const auto jobs = ArrivalOfKey(KeyOfArrival(kJobs));
  ASSERT_TRUE(jobs);
  EXPECT_EQ(jobs->first, kJobs.first);
  EXPECT_EQ(jobs->last, kJobs.last);
  EXPECT_FALSE(jobs->Has({9}));
  EXPECT_TRUE(jobs->Has({10}));
  EXPECT_TRUE(jobs->Has({2509}));
  EXPECT_FALSE(jobs->Has({2510}));
}

TEST(Arrival, TextsThatAreNoKeysTellNothing) {
  for (const char* key : {"", "queue", "arrival", "arrival/", "arrival/1", "arrival/1-", "arrival/-2",
                          "arrival/a-2", "arrival/1-2x", "arrival/1-99999999999999999999", "arrival/3-2"})
    EXPECT_FALSE(ArrivalOfKey(key)) << key;
}

TEST(ArrivalRemover, TakesAllBackHoweverLittleRoomThereIs) {
  for (const std::size_t room : {5000u, 700u, 500u, 499u, 37u, 2u, 1u}) {
    FullDisk disk(room);
    ArrivalRemover removal(kJobs, {2510});
    for (int steps = 0; !removal.IsOver() && steps < 20000; ++steps) removal.Take(disk.Write(removal.Next()));
    EXPECT_FALSE(removal.failed()) << room;
    EXPECT_TRUE(disk.there().empty()) << room << ": " << disk.there().size();
    EXPECT_FALSE(disk.marked()) << room;
  }
}

TEST(ArrivalRemover, LeavesWhatWasNeverWrittenAlone) {
  ArrivalRemover removal(kJobs, {510});
  std::set<JobId> erased;
  while (!removal.IsOver()) {
    const auto step = removal.Next();
    erased.insert(step.erase.begin(), step.erase.end());
    removal.Take({});
  }
  EXPECT_EQ(erased.size(), 500u);
  EXPECT_EQ(*erased.begin(), (JobId{10}));
}

TEST(ArrivalRemover, GivesUpWhereNotEvenOneCanBeDeleted) {
  FullDisk disk(0);
  ArrivalRemover removal(kJobs, {2510});
  int steps = 0;
  for (; !removal.IsOver() && steps < 100; ++steps) removal.Take(disk.Write(removal.Next()));
  EXPECT_TRUE(removal.failed());
  EXPECT_LT(steps, 20);
  EXPECT_TRUE(disk.marked());
}

TEST(ArrivalRemover, GivesUpAtOnceWhereTheDiskIsNotWhatIsWrong) {
  ArrivalRemover removal(kJobs, {2510});
  removal.Take(base::Fail(base::ErrorCode::kCorrupt, "damaged"));
  EXPECT_TRUE(removal.failed());
}

}  // namespace
}  // namespace gpuman::jobs
