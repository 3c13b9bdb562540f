#include "suspend/host_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace gpuman::suspend {
namespace {

using base::GiB;
using base::MiB;
using ::testing::HasSubstr;

TEST(HostMemory, IsReadFromWhatTheKernelSays) {
  const auto memory = ParseHostMemory("MemTotal:       65536 kB\nMemFree:  1 kB\nMemAvailable:   32768 kB\n");
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->total, MiB(64));
  EXPECT_EQ(memory->available, MiB(32));
  EXPECT_TRUE(ReadHostMemory());
}

TEST(HostMemory, InvalidTextGivesNoFigures) {
  for (const char* text :
       {"", "MemTotal: 5 kB", "MemTotal: x kB\nMemAvailable: 5 kB",
        "MemAvailable:\nMemTotal:", "MemTotal: 99999999999999999999 kB\nMemAvailable: 5 kB"})
    EXPECT_FALSE(ParseHostMemory(text)) << text;
}

TEST(HostMemory, KeepsASixteenthFreeAndNeverLessThanHalfAGigabyte) {
  EXPECT_EQ(KeptFree({GiB(64), GiB(10)}), GiB(4));
  EXPECT_EQ(KeptFree({GiB(2), GiB(1)}), MiB(512));
}

TEST(Holds, RefusalNamesNeededAndAvailableMemory) {
  const struct {
    const char* what;
    HostRoom room;
    HostNeed need;
    const char* refusal;  // nullptr: none
  } table[] = {
      {"fits", {GiB(10), GiB(2), {}, GiB(20), GiB(1)}, {GiB(6), GiB(2)}, nullptr},
      {"exactly", {GiB(10), {}, {}, GiB(9), GiB(1)}, {GiB(4), GiB(4)}, nullptr},
      {"budget",
       {GiB(10), GiB(3), {}, GiB(20), GiB(1)},
       {GiB(6), GiB(2)},
       "takes 8GiB of the host's memory; suspended jobs may have 10GiB of it, and others have 3GiB"},
      {"machine",
       {GiB(10), {}, {}, GiB(5), GiB(1)},
       {GiB(3), GiB(2)},
       "takes 5GiB of the host's memory, of which 5GiB are available and 1GiB have to stay free"},
      {"what is prepared is there", {GiB(10), {}, GiB(3), GiB(5), GiB(1)}, {GiB(3), GiB(2)}, nullptr},
      {"but for the shims alone",
       {GiB(10), {}, GiB(9), GiB(2), GiB(1)},
       {GiB(3), GiB(2)},
       "takes 2GiB of the host's memory, of which 2GiB"},
      {"nothing", {{}, {}, {}, GiB(5), GiB(1)}, {}, nullptr},
      {"nothing more, of a full machine", {GiB(10), {}, GiB(3), MiB(500), GiB(1)}, {GiB(3), {}}, nullptr},
  };
  for (const auto& row : table) {
    const auto holds = Holds(row.room, row.need);
    EXPECT_EQ(holds.has_value(), row.refusal == nullptr) << row.what;
    if (holds || !row.refusal) continue;
    EXPECT_EQ(holds.error().code, base::ErrorCode::kUnsatisfiable);
    EXPECT_THAT(holds.error().message, HasSubstr(row.refusal)) << row.what;
  }
}

TEST(HoldsCheckpoint, CheckpointIsRefusedBelowTheMachinesShare) {
  EXPECT_TRUE(HoldsCheckpoint({GiB(16), GiB(8)}, GiB(7)));
  EXPECT_FALSE(HoldsCheckpoint({GiB(16), GiB(8)}, GiB(8)));
}

TEST(HostRoom, ReportedMemoryCountsUpToTheMemoryInUse) {
  const HostMemory memory{GiB(64), GiB(60)};
  EXPECT_EQ(Believed(memory, GiB(3)), GiB(3));
  EXPECT_EQ(Believed(memory, base::Bytes{std::uint64_t{1} << 44}), GiB(4));
  EXPECT_EQ(Believed({GiB(64), GiB(65)}, GiB(3)), base::Bytes{}) << "a kernel that says nonsense";
}

MoverUser User(uid_t uid) { return {.uid = uid}; }

TEST(KeepFor, EachUserKeepsAPartOfWhatIsLeftAsItWants) {
  const struct {
    const char* what;
    base::Bytes budget, in_use;
    std::map<MoverUser, base::Bytes> wanted, keep;
  } table[] = {
      {"all of it fits",
       GiB(10),
       GiB(4),
       {{User(1), GiB(4)}, {User(2), GiB(2)}},
       {{User(1), GiB(4)}, {User(2), GiB(2)}}},
      {"half of it fits",
       GiB(7),
       GiB(4),
       {{User(1), GiB(4)}, {User(2), GiB(2)}},
       {{User(1), GiB(2)}, {User(2), GiB(1)}}},
      {"all is in use", GiB(4), GiB(4), {{User(1), GiB(4)}}, {{User(1), {}}}},
      {"more than all is in use", GiB(4), GiB(5), {{User(1), GiB(4)}}, {{User(1), {}}}},
      {"nobody wants any", GiB(4), {}, {{User(1), {}}}, {{User(1), {}}}},
      {"nobody is there", GiB(4), {}, {}, {}},
  };
  for (const auto& row : table) EXPECT_EQ(KeepFor(row.budget, row.in_use, row.wanted), row.keep) << row.what;
}

TEST(KeepFor, TheSumIsNeverMoreThanWhatIsLeftNorAnyPartMoreThanWanted) {
  std::mt19937_64 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  const auto some = [&] { return base::Bytes{random() >> (random() % 64)}; };
  for (int round = 0; round < 5'000; ++round) {
    const base::Bytes budget = some(), in_use = some();
    std::map<MoverUser, base::Bytes> wanted;
    for (auto users = random() % 5; users > 0; --users)
      wanted[User(static_cast<uid_t>(users))] = {some().count >> 4};
    const auto keep = KeepFor(budget, in_use, wanted);
    ASSERT_EQ(keep.size(), wanted.size());
    base::Bytes sum, all;
    for (const auto& [user, bytes] : wanted) {
      ASSERT_LE(keep.at(user), bytes);
      sum += keep.at(user);
      all += bytes;
    }
    const base::Bytes left = budget - in_use;
    ASSERT_LE(sum, left);
    // Nothing is left over but what rounding takes.
    ASSERT_GE(sum + base::Bytes{wanted.size()}, std::min(left, all));
    for (const auto& [one, mine] : wanted)
      for (const auto& [other, its] : wanted)
        if (mine <= its) {
          ASSERT_LE(keep.at(one), keep.at(other)) << "who wants more keeps no less";
        }
  }
}

}  // namespace
}  // namespace gpuman::suspend
