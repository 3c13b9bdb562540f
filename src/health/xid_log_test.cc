#include "health/xid_log.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gpuman::health {
namespace {

LoggedXid Parsed(std::string_view line) { return ParseXidLine(line).value_or(LoggedXid{}); }

TEST(XidLog, TellsDeviceNumberProcessAndWords) {
  const auto logged = Parsed(
      "3,1187,98765432,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.");
  EXPECT_EQ(logged.pci, "0000:3b:00.0");
  EXPECT_EQ(logged.xid, 79U);
  EXPECT_EQ(logged.pid, 1234);
  EXPECT_EQ(logged.text, "name=python, GPU has fallen off the bus.");
}

TEST(XidLog, AProcessThatTheDriverDoesNotKnowIsNone) {
  for (const char* line : {"NVRM: Xid (PCI:0000:3b:00): 31, pid='<unknown>', name=<unknown>, Ch 00000010",
                           "NVRM: Xid (PCI:0000:3b:00): 31, pid=-1, Ch 00000010",
                           "NVRM: Xid (PCI:0000:3b:00): 31, Ch 00000010"}) {
    EXPECT_EQ(Parsed(line).xid, 31U) << line;
    EXPECT_EQ(Parsed(line).pid, std::nullopt) << line;
  }
}

TEST(XidLog, QuotesAroundAProcessAreTakenOff) {
  EXPECT_EQ(Parsed("NVRM: Xid (PCI:0000:3b:00): 13, pid='77', x").pid, 77);
}

TEST(XidLog, LinesOfOthersTellNothing) {
  for (const char* line : {"", "usb 1-1: new device", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
                           "NVRM: Xid (PCI:0000:3b:00)", "NVRM: Xid (PCI:0000:3b:00): ",
                           "NVRM: Xid (PCI:0000:3b:00): many, pid=1", "NVRM: Xid (PCI:): 79, pid=1",
                           "NVRM: Xid (PCI:0000:3b:00): 99999999999999999999, pid=1"})
    EXPECT_EQ(ParseXidLine(line), std::nullopt) << line;
}

RC_GTEST_PROP(XidLog, ReadsWhateverStandsThere, (const std::string& noise)) {
  (void)ParseXidLine(noise);
  const auto logged = ParseXidLine("NVRM: Xid (PCI:0000:3b:00): 79, " + noise);
  RC_ASSERT(logged && logged->xid == 79U);
}

TEST(XidLog, ADeviceIsTheSameHoweverItIsWritten) {
  EXPECT_TRUE(IsSameDevice("00000000:3B:00.0", "0000:3b:00.0"));
  EXPECT_TRUE(IsSameDevice("00010000:3B:00.0", "10000:3b:00"));
  EXPECT_FALSE(IsSameDevice("00000001:3B:00.0", "0000:3b:00.0"));
  EXPECT_FALSE(IsSameDevice("00000000:3B:00.0", "0000:3c:00.0"));
  EXPECT_FALSE(IsSameDevice("", "0000:3c:00.0"));
}

}  // namespace
}  // namespace gpuman::health
