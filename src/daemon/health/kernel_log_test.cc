#include "daemon/health/kernel_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/test_temp_dir.h"

namespace gpuman::daemon {
namespace {

using std::chrono::microseconds;

constexpr const char* kLog =
    "6,1,100,-;Linux version 6.1.0\n"
    "4,2,2000000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python, MMU Fault\n"
    " SUBSYSTEM=pci\n"
    " DEVICE=+pci:0000:3b:00.0\n"
    "4,3,3000000,c,caller=T1;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen "
    "off the bus.\n"
    "4,4,soon,-;NVRM: Xid (PCI:0000:3b:00): 48, pid=1\n"
    "NVRM: Xid (PCI:0000:3b:00): 48, pid=1\n"
    "4,5,4000000,-;NVRM: Xid (PCI:0000:5e:00): 48";

TEST(KernelLog, GivesItsXidsWithTheirTimes) {
  const auto xids = KernelXidsOf(kLog);
  ASSERT_EQ(xids.size(), 3U);
  EXPECT_EQ(xids[0].logged.xid, 31U);
  EXPECT_EQ(xids[0].logged.pid, 77);
  EXPECT_EQ(xids[0].since_boot, microseconds(2'000'000));
  EXPECT_EQ(xids[1].logged.xid, 79U);
  EXPECT_EQ(xids[1].since_boot, microseconds(3'000'000));
  EXPECT_EQ(xids[2].logged.pci, "0000:5e:00.0");
}

TEST(KernelLog, IsReadFromAFileOfItsLines) {
  const base::TempDir directory;
  const auto path = directory.path() / "kmsg";
  std::ofstream(path) << kLog;
  const auto xids = ReadKernelXids(path);
  ASSERT_TRUE(xids);
  EXPECT_EQ(*xids, KernelXidsOf(kLog));
}

TEST(KernelLog, ThatIsNotThereIsAnError) {
  const auto xids = ReadKernelXids("/no/such/log");
  ASSERT_FALSE(xids);
  EXPECT_EQ(xids.error().code, base::ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpuman::daemon
