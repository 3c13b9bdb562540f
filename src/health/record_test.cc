#include "health/record.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gpuman::health {
namespace {

TEST(HealthRecord, ReadsBack) {
  const base::WallTime at{base::Millis(1'795'000'000'123)};
  const HealthRecord record{
      "6c3f",
      {{"xid_119", HealthState::kUnhealthy, RepairAction::kReset, "Xid 119: \xC3\xA4 \"quoted\"", at,
        at + base::Millis(5), 3, true},
       {"row_remaps", HealthState::kDegraded, RepairAction::kFieldDiagnostics, "", at, at, 1, false}}};
  const auto back = ParseRecord(SerializeRecord(record));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, record);
}

TEST(HealthRecord, AnUnreadableRecordIsCorrupt) {
  const std::string whole = SerializeRecord(
      {"6c3f", {{"xid_79", HealthState::kUnhealthy, RepairAction::kPowerCycle, "x", {}, {}, 1, false}}});
  ASSERT_TRUE(ParseRecord(whole));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(ParseRecord(whole.substr(0, length)));
  for (const char* text :
       {"null", "[]", "{}", R"({"v":1,"boot":7,"faults":[]})", R"({"v":1,"boot":"","faults":{}, "more":1})",
        R"({"v":1,"boot":"","faults":[{}]})"}) {
    const auto record = ParseRecord(text);
    ASSERT_FALSE(record) << text;
    EXPECT_EQ(record.error().code, base::ErrorCode::kCorrupt) << text;
  }
  EXPECT_EQ(ParseRecord(R"({"v":2,"boot":"","faults":[]})").error().code, base::ErrorCode::kNotSupported);
}

RC_GTEST_PROP(HealthRecord, ReadsWhateverStandsThere, (const std::string& noise)) {
  (void)ParseRecord(noise);
}

}  // namespace
}  // namespace gpuman::health
