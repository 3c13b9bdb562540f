// Tests the interface with the simulated control program.
#include "mps/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/test_temp_dir.h"
#include "mps/rivals.h"

namespace gpuman::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

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
  EXPECT_TRUE(control_.ApplyLimits(kUuid, {{25.0, {}}, {}, {}}));
  const auto refused = control_.ApplyLimits(kUuid, {{200.0, {}}, {}, {}});
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

// The control program of this driver branch, without a simulated machine.
class MpsControl3 : public ::testing::Test {
 protected:
  void SetUp() override { UseDriver("615"); }
  void TearDown() override {
    if (daemon_) (void)control_.Stop(kUuid, *daemon_, true).has_value();
    ::unsetenv("GPUMAN_SIM_MPS_BRANCH");
  }
  static void UseDriver(const char* branch) { ::setenv("GPUMAN_SIM_MPS_BRANCH", branch, 1); }
  void Start() {
    const auto started = control_.Start(kUuid, {});
    ASSERT_TRUE(started) << started.error().message;
    daemon_ = *started;
  }
  AppliedLimits ApplyLimits(const WantedOnGpu& wanted) {
    auto applied = control_.ApplyLimits(kUuid, wanted);
    EXPECT_TRUE(applied) << applied.error().message;
    return applied.value_or(AppliedLimits{});
  }
  static ClientJob Job(std::int64_t id, Limits limits = {}, std::optional<int> time_slice = {}) {
    return {base::JobId{id}, ::geteuid(), limits, time_slice};
  }
  bool IsListening(const MpsNamespacePlacement& placement) const {
    return std::filesystem::exists(control_.DirectoriesFor(kUuid).pipe / placement.server /
                                   placement.name_space / "control");
  }

  base::TempDir dir_;
  base::ProcFs table_;
  Control control_{GPUMAN_SIM_MPS, dir_.path() / "mps", table_, 3};
  std::optional<base::ProcessId> daemon_;
};

TEST_F(MpsControl3, TheProgramSaysWhetherItSpeaksIt) {
  EXPECT_EQ(AskProtocol(GPUMAN_SIM_MPS), 3);
  UseDriver("610");
  EXPECT_EQ(AskProtocol(GPUMAN_SIM_MPS), 2);
  EXPECT_EQ(AskProtocol("/nowhere/nvidia-cuda-mps-control"), 2);
}

TEST_F(MpsControl3, JobsGetNamespacesWithTheirLimitsAndLoseThem) {
  Start();
  EXPECT_THAT(*control_.Servers(kUuid), IsEmpty());
  WantedOnGpu wanted{{50.0, {}}, base::GiB(4), {Job(7, {25.0, base::GiB(1)}), Job(8)}};
  const auto applied = ApplyLimits(wanted);
  EXPECT_THAT(applied.problems, IsEmpty());
  for (const auto& job : wanted.jobs) {
    const auto placement = PlacementOf(job, wanted.limits);
    EXPECT_EQ(WhyNotThere(applied, placement), "");
    EXPECT_TRUE(IsListening(placement)) << placement.name_space;
  }
  EXPECT_EQ(applied.servers.at(0).limits.threads, 50.0);
  EXPECT_THAT(applied.servers.at(0).namespaces,
              UnorderedElementsAre(NamespaceStatus{"default", {50.0, {}}},
                                   NamespaceStatus{"job7", {25.0, base::GiB(1)}},
                                   NamespaceStatus{"job8", {50.0, {}}}));
  EXPECT_EQ(applied.servers.at(0).uid, ::geteuid());
  EXPECT_EQ(control_.Servers(kUuid)->at(0).pid, applied.servers.at(0).pid);

  wanted.limits.threads = 20;
  wanted.jobs.erase(wanted.jobs.begin());
  const auto later = ApplyLimits(wanted);
  EXPECT_EQ(WhyNotThere(later, PlacementOf(wanted.jobs.at(0), wanted.limits)), "");
  EXPECT_FALSE(IsListening(PlacementOf(Job(7), {})));
  EXPECT_THAT(later.deleted, IsEmpty());

  wanted.jobs.clear();
  EXPECT_THAT(ApplyLimits(wanted).deleted, ElementsAre("u" + std::to_string(::geteuid())));
  EXPECT_THAT(*control_.Servers(kUuid), IsEmpty());
}

TEST_F(MpsControl3, AJobWithAShareHasAServerOfItsOwnWhereTheProgramKnowsShares) {
  UseDriver("620");
  Start();
  EXPECT_TRUE(control_.HasTimeSlices(kUuid));
  const auto applied = ApplyLimits({{}, base::GiB(4), {Job(7, {}, 30)}});
  EXPECT_THAT(applied.problems, IsEmpty());
  EXPECT_EQ(applied.servers.at(0).name, "job7");
}

TEST_F(MpsControl3, AServerThatLacksItsShareIsNotLeftRunning) {
  Start();
  EXPECT_FALSE(control_.HasTimeSlices(kUuid));
  const auto applied = ApplyLimits({{}, base::GiB(4), {Job(7, {}, 30), Job(8)}});
  ASSERT_EQ(applied.problems.size(), 1u);
  EXPECT_THAT(applied.problems[0].message, HasSubstr("timeslice-pct"));
  EXPECT_THAT(WhyNotThere(applied, PlacementOf(Job(7, {}, 30), {})), HasSubstr("timeslice-pct"));
  EXPECT_EQ(WhyNotThere(applied, PlacementOf(Job(8), {})), "");
  ASSERT_EQ(applied.servers.size(), 1u) << "that of job 8";
  EXPECT_NE(applied.servers[0].name, "job7");
}

TEST_F(MpsControl3, AnOrderThatIsRefusedSaysWhatWasAnswered) {
  Start();
  const auto refused = control_.Terminate(kUuid, 0, 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr("client 2 not found"));
}

TEST_F(MpsControl3, ItsProtocolIsFoundAgainAndItEnds) {
  Start();
  (void)ApplyLimits({{}, base::GiB(4), {Job(7)}});
  const auto pipe = control_.DirectoriesFor(kUuid).pipe;
  EXPECT_EQ(ControlAt(FindControls(table_), pipe)->protocol, 3);
  EXPECT_EQ(*control_.Start(kUuid, {}), *daemon_);
  const auto stopped = control_.Stop(kUuid, *daemon_, false);
  ASSERT_TRUE(stopped) << stopped.error().message;
  EXPECT_FALSE(base::IsAlive(*daemon_));
  daemon_.reset();
  EXPECT_EQ(control_.Servers(kUuid).error().code, base::ErrorCode::kUnavailable);
}

// A program of which each order succeeds, and which lists no server: as the real one where a server finds no
// GPU, and ends at once.
TEST_F(MpsControl3, AServerThatIsNotListedAfterItsCreationIsAProblem) {
  const auto program = dir_.path() / "nvidia-cuda-mps-control";
  std::ofstream(program) << "#!/bin/sh\n[ \"$4\" = list ] && echo name,uid,pid,status\nexit 0\n";
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  const Control control(program, dir_.path() / "mps", table_, 3);
  const auto applied = control.ApplyLimits(kUuid, {{}, base::GiB(4), {Job(7)}});
  ASSERT_TRUE(applied) << applied.error().message;
  ASSERT_EQ(applied->problems.size(), 1u) << "what follows for it is not tried";
  EXPECT_THAT(applied->problems[0].message, HasSubstr("is not listed: it has ended"));
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
