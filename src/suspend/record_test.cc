#include "suspend/record.h"

#include <gtest/gtest.h>

namespace gpuman::suspend {
namespace {

TEST(SuspendRecord, ReadsTheSameAsWritten) {
  SuspensionRecord record;
  EXPECT_EQ(ParseRecord(SerializeRecord(record)).value(), record);
  record.phase = SuspensionPhase::kRetreating;
  record.wants_gpu = false;
  record.target = "GPU-b";
  record.reason = "device_pressure";
  record.detail = "12 GiB \"too\" much";
  record.absence = AutoResume{"device_pressure", "GPU 0 is full", base::Millis(20'000)};
  record.held[{12, 34}] = {{"GPU-a", base::GiB(3)}, {"GPU-b", {0}}};
  record.held[{13, 35}] = {};
  record.left = {{"GPU-a", base::GiB(1)}};
  EXPECT_EQ(ParseRecord(SerializeRecord(record)).value(), record);
}

TEST(SuspendRecord, ReadsWhatWasWrittenBeforeItSaidWhatIsLeft) {
  const auto record =
      ParseRecord(R"({"phase":"suspended","wants_gpu":false,"reason":"held_by_user","detail":"",)"
                  R"("held":[{"pid":12,"start_time":34,"gpus":{"GPU-a":3}}]})");
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_TRUE(record->left.empty());
  EXPECT_EQ(record->held.at({12, 34}).at("GPU-a"), base::Bytes{3});
}

TEST(SuspendRecord, MemoryThatDidNotStayIsAway) {
  SuspensionRecord record;
  record.held[{12, 34}] = {{"a", base::GiB(3)}, {"b", base::GiB(1)}};
  record.held[{13, 35}] = {{"a", base::GiB(2)}};
  record.left = {{"a", base::GiB(1)}, {"b", base::GiB(2)}, {"c", base::GiB(1)}};
  EXPECT_EQ(AwayOf(record), (BytesByGpu{{"a", base::GiB(4)}, {"b", {}}}));
}

TEST(SuspendRecord, RefusesWhatItDidNotWrite) {
  const std::string good = SerializeRecord({});
  ASSERT_TRUE(ParseRecord(good));
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), good.substr(1),
        std::string(R"({"phase":"flying","wants_gpu":true,"reason":"","detail":"","held":[]})"),
        std::string(R"({"phase":"running","wants_gpu":1,"reason":"","detail":"","held":[]})"),
        std::string(R"({"phase":"running","wants_gpu":true,"reason":"","detail":"","held":[1]})"),
        std::string(R"({"phase":"running","wants_gpu":true,"reason":"","detail":"","held":[],"absence":5})"),
        std::string(R"({"phase":"running","wants_gpu":true,"reason":"","detail":"","held":[],"left":5})"),
        std::string(
            R"({"phase":"running","wants_gpu":true,"reason":"","detail":"","held":[],"target":5})")}) {
    const auto record = ParseRecord(text);
    ASSERT_FALSE(record) << text;
    EXPECT_EQ(record.error().code, base::ErrorCode::kCorrupt);
  }
}

TEST(SuspendRecord, AProcessReturnsToTheTargetOrWhereItWas) {
  const base::ProcessId one{11, 1100}, several{12, 1200}, none{13, 1300};
  SuspensionRecord record;
  record.held = {{one, {{"b", base::GiB(1)}}}, {several, {{"a", base::GiB(1)}, {"b", base::GiB(1)}}}};
  EXPECT_EQ(ReturnsTo(record, one), "b");
  EXPECT_EQ(ReturnsTo(record, several), "");
  EXPECT_EQ(ReturnsTo(record, none), "");
  record.target = "c";
  EXPECT_EQ(ReturnsTo(record, one), "c");
}

TEST(SuspendRecord, AJobIsSuspendedFromItsDepartureUntilItRunsAgain) {
  EXPECT_FALSE(IsSuspended(SuspensionPhase::kRunning));
  EXPECT_FALSE(IsSuspended(SuspensionPhase::kSuspending));
  EXPECT_FALSE(IsSuspended(SuspensionPhase::kUndoing));
  EXPECT_TRUE(IsSuspended(SuspensionPhase::kSuspended));
  EXPECT_TRUE(IsSuspended(SuspensionPhase::kResuming));
  EXPECT_TRUE(IsSuspended(SuspensionPhase::kRetreating));
}

}  // namespace
}  // namespace gpuman::suspend
