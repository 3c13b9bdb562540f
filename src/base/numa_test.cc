#include "base/numa.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

#include "base/fd.h"
#include "base/test_numa.h"
#include "base/test_temp_dir.h"

namespace gpuman::base {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;

class NumaTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = Fd(::memfd_create("numa", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file_.get(), kBytes), 0);
    at_ = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    ASSERT_NE(at_, MAP_FAILED);
  }
  void TearDown() override { ::munmap(at_, kBytes); }

  void Device(const std::string& name, const std::string& node) {
    std::filesystem::create_directories(dir_.path() / name);
    std::ofstream(dir_.path() / name / "numa_node") << node;
  }

  Fd file_;
  void* at_ = nullptr;
  TempDir dir_;
};

TEST_F(NumaTest, MemoryPrefersTheNodeThatItWasGiven) {
  EXPECT_EQ(PreferredNode(at_), std::nullopt);
  if (const auto done = PreferNode(at_, kBytes, 0); !done) GTEST_SKIP() << done.error().message;
  const auto node = PreferredNode(at_);
  if (!node) GTEST_SKIP() << "the kernel does not tell policies";
  EXPECT_EQ(*node, 0);
}

TEST_F(NumaTest, MemoryCanBeUsedAlsoWhereTheKernelRefuses) {
  EXPECT_FALSE(PreferNode(at_, kBytes, -1));
  EXPECT_FALSE(PreferNode(at_, kBytes, 100'000));
  (void)PreferNode(at_, kBytes, 1023);  // hardly any machine has so many
  static_cast<char*>(at_)[kBytes - 1] = 1;
  EXPECT_EQ(static_cast<char*>(at_)[kBytes - 1], 1);
}

TEST_F(NumaTest, ADevicesNodeIsAsTheKernelSays) {
  Device("0000:1b:00.0", "1\n");
  Device("0000:2b:00.0", "-1\n");
  Device("0000:3b:00.0", "what\n");
  EXPECT_EQ(NodeOfPciDevice("0000:1B:00.0", dir_.path()), 1) << "the driver writes capital letters";
  EXPECT_EQ(NodeOfPciDevice("0000:2b:00.0", dir_.path()), std::nullopt);
  EXPECT_EQ(NodeOfPciDevice("0000:3b:00.0", dir_.path()), std::nullopt);
  EXPECT_EQ(NodeOfPciDevice("0000:4b:00.0", dir_.path()), std::nullopt);
  EXPECT_EQ(NodeOfPciDevice("", dir_.path()), std::nullopt);
}

}  // namespace
}  // namespace gpuman::base
