#include "mps/record.h"

#include <gtest/gtest.h>

namespace gpuman::mps {
namespace {

TEST(MpsRecord, ComesBackAsItWasWritten) {
  GpuRecord record{
      {4711, 12345}, "boot", {50.0, base::GiB(8)}, false, base::WallTime(base::Millis(1'700'000'000'123))};
  EXPECT_EQ(*ParseRecord(SerializeRecord(record)), record);
  record.limits = {};
  record.control = {};
  record.changed = true;
  record.protocol = 3;
  record.time_slices = true;
  EXPECT_EQ(*ParseRecord(SerializeRecord(record)), record);
}

TEST(MpsRecord, OfBeforeChangesWereKeptIsRead) {
  const auto record = ParseRecord(
      R"({"boot":"b","memory":null,"pid":1,"since":"2026-01-01T00:00:00Z","start_time":1,"threads":null,"v":1})");
  ASSERT_TRUE(record);
  EXPECT_FALSE(record->changed);
  EXPECT_EQ(record->protocol, 2);
  EXPECT_FALSE(record->time_slices);
}

TEST(MpsRecord, ARecordThatWasNotWrittenHereIsRefused) {
  for (
      const char* wrong :
      {"", "[]", "{}", "nonsense",
       R"({"boot":"b","memory":null,"pid":-1,"since":"2026-01-01T00:00:00Z","start_time":1,"threads":null,"v":1})",
       R"({"boot":"b","memory":null,"pid":1e300,"since":"2026-01-01T00:00:00Z","start_time":1,"threads":null,"v":1})",
       R"({"boot":"b","memory":null,"pid":4294967297,"since":"2026-01-01T00:00:00Z","start_time":1,"threads":null,"v":1})",
       R"({"boot":"b","memory":1e300,"pid":1,"since":"2026-01-01T00:00:00Z","start_time":1,"threads":null,"v":1})",
       R"({"boot":"b","memory":-1,"pid":1,"since":"2026-01-01T00:00:00Z","start_time":1,"threads":null,"v":1})",
       R"({"boot":"b","changed":1,"memory":null,"pid":1,"since":"2026-01-01T00:00:00Z","start_time":1,"threads":null,"v":1})",
       R"({"boot":"b","memory":null,"pid":1,"since":"soon","start_time":1,"threads":null,"v":1})",
       R"({"boot":"b","memory":null,"pid":1,"since":"2026-01-01T00:00:00Z","start_time":1,"threads":null,"v":2})"})
    EXPECT_FALSE(ParseRecord(wrong)) << wrong;
}

}  // namespace
}  // namespace gpuman::mps
