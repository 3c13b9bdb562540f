#include "suspend/host_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(HostMemory, IsNotGuessed) {
  for (const char* text :
       {"", "MemTotal: 5 kB", "MemTotal: x kB\nMemAvailable: 5 kB",
        "MemAvailable:\nMemTotal:", "MemTotal: 99999999999999999999 kB\nMemAvailable: 5 kB"})
    EXPECT_FALSE(ParseHostMemory(text)) << text;
}

TEST(HostMemory, KeepsASixteenthFreeAndNeverLessThanHalfAGigabyte) {
  EXPECT_EQ(KeptFree({GiB(64), GiB(10)}), GiB(4));
  EXPECT_EQ(KeptFree({GiB(2), GiB(1)}), MiB(512));
}

TEST(Holds, SaysWhatItWouldTakeAndWhatThereIs) {
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
  };
  for (const auto& row : table) {
    const auto holds = Holds(row.room, row.need);
    EXPECT_EQ(holds.has_value(), row.refusal == nullptr) << row.what;
    if (holds || !row.refusal) continue;
    EXPECT_EQ(holds.error().code, base::ErrorCode::kUnsatisfiable);
    EXPECT_THAT(holds.error().message, HasSubstr(row.refusal)) << row.what;
  }
}

TEST(HoldsCheckpoint, LeavesTheMachineItsShare) {
  EXPECT_TRUE(HoldsCheckpoint({GiB(16), GiB(8)}, GiB(7)));
  EXPECT_FALSE(HoldsCheckpoint({GiB(16), GiB(8)}, GiB(8)));
}

TEST(HostRoom, ReportedMemoryCountsUpToTheMemoryInUse) {
  const HostMemory memory{GiB(64), GiB(60)};
  EXPECT_EQ(Believed(memory, GiB(3)), GiB(3));
  EXPECT_EQ(Believed(memory, base::Bytes{std::uint64_t{1} << 44}), GiB(4));
  EXPECT_EQ(Believed({GiB(64), GiB(65)}, GiB(3)), base::Bytes{}) << "a kernel that says nonsense";
}

}  // namespace
}  // namespace gpuman::suspend
