#include "base/kernel_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/test_temp_dir.h"

namespace gpuman::base {
namespace {

using std::chrono::microseconds;

TEST(KernelLog, ALineHasItsWriterItsTimeAndItsMessage) {
  const auto line = ParseKernelLogLine("6,1187,98765432,c,caller=T1;a; b");
  ASSERT_TRUE(line);
  EXPECT_TRUE(line->from_kernel);
  EXPECT_EQ(line->since_boot, microseconds(98'765'432));
  EXPECT_EQ(line->message, "a; b");
  EXPECT_FALSE(ParseKernelLogLine("12,1,5,-;of a program")->from_kernel);
  EXPECT_FALSE(ParseKernelLogLine("9223372036854775807,1,5,-;of a program")->from_kernel);
}

TEST(KernelLog, OtherLinesBeginNoRecord) {
  for (const char* line :
       {"", " SUBSYSTEM=pci", " 6,1,2,-;x", "6,1,2,-", "6,1;x", "6;x", ",,,;x", "-6,1,2,-;x", "6,1,-2,-;x",
        "6,1,2x,-;x", "6x,1,2,-;x", "6,1,99999999999999999999,-;x"})
    EXPECT_FALSE(ParseKernelLogLine(line)) << line;
}

TEST(KernelLog, EachRecordIsReadOnce) {
  const TempDir directory;
  const auto path = directory.path() / "kmsg";
  std::ofstream(path) << "6,1,1,-;one\n";
  auto log = KernelLog::Open(path);
  ASSERT_TRUE(log);
  EXPECT_EQ(log->ReadMore(1000).value(), "6,1,1,-;one\n");
  EXPECT_EQ(log->ReadMore(1000).value(), "");
  std::ofstream(path, std::ios::app) << "6,2,2,-;two\n";
  EXPECT_EQ(log->ReadMore(0).value(), "");
  EXPECT_EQ(log->ReadMore(1000).value(), "6,2,2,-;two\n");
}

TEST(KernelLog, MissingLogIsNotFoundError) {
  const auto log = KernelLog::Open("/no/such/log");
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpuman::base
