// Tests the interface with the simulated control program.
#include "mps/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/test_temp_dir.h"
#include "mps/rivals.h"

namespace gpuman::mps {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kUuid = "GPU-c0ffee00";

class MpsControl : public ::testing::Test {
 protected:
  void TearDown() override {
    if (daemon_) (void)control_.Stop(kUuid, *daemon_, true).has_value();
  }
  void Start(const Limits& limits = {}) {
    const auto started = control_.Start(kUuid, limits);
    ASSERT_TRUE(started) << started.error().message;
    daemon_ = *started;
  }

  base::TempDir dir_;
  base::ProcFs table_;
  Control control_{GPUMAN_SIM_MPS, dir_.path() / "mps", table_};
  std::optional<base::ProcessId> daemon_;
};

TEST_F(MpsControl, StartsOneDaemonAndFindsItAgain) {
  Start();
  EXPECT_TRUE(base::IsAlive(*daemon_));
  EXPECT_THAT(*control_.Servers(kUuid), IsEmpty());
  EXPECT_EQ(*control_.Start(kUuid, {}), *daemon_);
  EXPECT_FALSE(
      RivalFor({{*daemon_, 0, control_.DirectoriesFor(kUuid).pipe.string(), kUuid}}, control_.root(), kUuid));
}

TEST_F(MpsControl, EndsWhenItIsToldTo) {
  Start();
  const auto stopped = control_.Stop(kUuid, *daemon_, false);
  ASSERT_TRUE(stopped) << stopped.error().message;
  EXPECT_FALSE(base::IsAlive(*daemon_));
  EXPECT_EQ(control_.Servers(kUuid).error().code, base::ErrorCode::kUnavailable);
  daemon_.reset();
}

TEST_F(MpsControl, LimitsAreTakenAtTheStartAndLater) {
  Start({50.0, base::GiB(1)});
  EXPECT_TRUE(control_.Apply(kUuid, {25.0, {}}));
  const auto refused = control_.Apply(kUuid, {200.0, {}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("Invalid percentage"));
}

TEST_F(MpsControl, OneThatRefusesItsLimitsIsNotLeftRunning) {
  EXPECT_FALSE(control_.Start(kUuid, {200.0, {}}));
  EXPECT_FALSE(ControlAt(FindControls(table_), control_.DirectoriesFor(kUuid).pipe));
}

TEST_F(MpsControl, ARefusedTerminationSaysWhatWasAnswered) {
  Start();
  const auto refused = control_.Terminate(kUuid, 1, 2);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("not found"));
}

TEST(MpsControlProgram, IsTheFirstInThePath) {
  const base::TempDir dir;
  EXPECT_EQ(FindControl(dir.path().string() + ":/nowhere").error().code, base::ErrorCode::kNotSupported);
  const auto program = dir.path() / "nvidia-cuda-mps-control";
  std::ofstream(program) << "#!/bin/sh\n";
  EXPECT_FALSE(FindControl(dir.path().string()));  // it cannot be executed
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  EXPECT_EQ(*FindControl("/nowhere::" + dir.path().string()), program);
}

}  // namespace
}  // namespace gpuman::mps
