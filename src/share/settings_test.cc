#include "share/settings.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

namespace gpuman::share {
namespace {

using base::GiB;
using base::Millis;
using testing::HasSubstr;

TEST(ShareSettings, DefaultsAreValid) { EXPECT_TRUE(Validate({})); }

TEST(ShareSettings, EachIsHeldToItsBoundsAndNamed) {
  const struct {
    const char* name;
    std::function<void(SchedulerSettings&)> spoil;
  } wrong[] = {
      {"share.quantum_min", [](SchedulerSettings& s) { s.quantum_min = Millis(9); }},
      {"share.quantum_min", [](SchedulerSettings& s) { s.quantum_min = Millis(86'400'001); }},
      {"share.quantum_max", [](SchedulerSettings& s) { s.quantum_max = s.quantum_min - Millis(1); }},
      {"share.quantum_max", [](SchedulerSettings& s) { s.quantum_max = Millis(86'400'001); }},
      {"share.idle", [](SchedulerSettings& s) { s.idle = Millis(1); }},
      {"share.compute_quantum", [](SchedulerSettings& s) { s.compute_quantum = Millis(9); }},
      {"share.compute_trial", [](SchedulerSettings& s) { s.compute_trial = Millis(999); }},
      {"share.compute_again", [](SchedulerSettings& s) { s.compute_again = s.compute_trial - Millis(1); }},
      {"share.yield_limit", [](SchedulerSettings& s) { s.yield_limit = Millis(99); }},
      {"share.retry", [](SchedulerSettings& s) { s.retry = Millis(99); }},
      {"share.overhead_target", [](SchedulerSettings& s) { s.overhead_target = 0.0009; }},
      {"share.overhead_target", [](SchedulerSettings& s) { s.overhead_target = 0.51; }},
      {"share.overhead_target", [](SchedulerSettings& s) { s.overhead_target = std::nan(""); }},
  };
  for (const auto& one : wrong) {
    SchedulerSettings settings;
    one.spoil(settings);
    const auto valid = Validate(settings);
    ASSERT_FALSE(valid) << one.name;
    EXPECT_EQ(valid.error().code, base::ErrorCode::kInvalidArgument);
    EXPECT_THAT(valid.error().message, HasSubstr(one.name));
  }
}

TEST(ShareSettings, TheBoundsThemselvesAreAllowed) {
  EXPECT_TRUE(Validate({.quantum_min = Millis(10), .quantum_max = Millis(10), .overhead_target = 0.001}));
  EXPECT_TRUE(Validate({.overhead_target = 0.5, .idle = Millis(2), .retry = Millis(100)}));
}

TEST(ShareSettings, TheCapacityOfAGpuIsItsOwnOrElseThatOfAllAndNeverMoreThanItHas) {
  EXPECT_EQ(CapacityOf({}, "a", GiB(16)), GiB(16));
  SchedulerSettings settings;
  settings.capacity = base::ParseSize("50%").value();
  settings.capacity_of["b"] = base::ParseSize("4GiB").value();
  settings.capacity_of["c"] = base::ParseSize("40GiB").value();
  EXPECT_EQ(CapacityOf(settings, "a", GiB(16)), GiB(8));
  EXPECT_EQ(CapacityOf(settings, "b", GiB(16)), GiB(4));
  EXPECT_EQ(CapacityOf(settings, "c", GiB(16)), GiB(16));
}

TEST(ShareSettings, WordsAreReadAsTheyAreWritten) {
  for (const auto policy : {PolicyKind::kFair, PolicyKind::kPriority, PolicyKind::kFcfs})
    EXPECT_EQ(ParsePolicy(ToString(policy)).value(), policy);
  for (const auto compute :
       {ConcurrencyMode::kConcurrent, ConcurrencyMode::kExclusive, ConcurrencyMode::kAuto})
    EXPECT_EQ(ParseConcurrency(ToString(compute)).value(), compute);
  for (const auto how : {OnNoYield::kWait, OnNoYield::kSuspend, OnNoYield::kEnd})
    EXPECT_EQ(ParseOnNoYield(ToString(how)).value(), how);
  for (const auto how :
       {base::ChangeDetection::kHash, base::ChangeDetection::kCompare, base::ChangeDetection::kOff})
    EXPECT_EQ(ParseUnchanged(ToString(how)).value(), how);
  EXPECT_THAT(ParseUnchanged("on").error().message, HasSubstr("hash, compare, off"));
  EXPECT_THAT(ParsePolicy("Fair").error().message, HasSubstr("fair, priority, fcfs"));
  EXPECT_FALSE(ParseConcurrency(""));
  EXPECT_FALSE(ParseOnNoYield("kill"));
}

}  // namespace
}  // namespace gpuman::share
