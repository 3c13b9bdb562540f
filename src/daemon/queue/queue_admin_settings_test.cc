#include "daemon/queue/queue_admin_settings.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

TEST(QueueControlState, ComesBackAsItWasKept) {
  QueueControlState state;
  state.choice = queue::GpuPickPolicy::kTopology;
  state.paused = true;
  state.allowed = {"GPU-a"};
  state.drained = {"GPU-b"};
  state.drained_by = {{"GPU-b", "root"}};
  IgnoreRule rule;
  rule.id = 4;
  rule.process = base::ProcessId{10, 7};
  rule.gpu = "GPU-a";
  IgnoreRule other;
  other.id = 2;
  other.user = "ann";
  other.name = "a\"b";
  const QuotaKey key{"project", "a/b"};
  api::QuotaLimits limits;
  limits.gpus = 3;
  limits.gpu_hours = 1.5;
  limits.shares = 2.5;
  api::Reservation reservation;
  reservation.id = 9;
  reservation.user = "ann";
  reservation.count = 1;
  reservation.devices = {"GPU-b"};
  reservation.start = base::WallTime(base::Millis(5));
  reservation.end = base::WallTime(base::Millis(6));
  reservation.created_by = "root";
  const jobs::SettingRows kept{Entry(state), Entry(rule), Entry(other), Entry(key, limits),
                               Entry(reservation)};

  const QueueAdminSettings admin = ReadQueueAdminSettings(kept);
  EXPECT_EQ(admin.state.choice, state.choice);
  EXPECT_TRUE(admin.state.paused);
  EXPECT_EQ(admin.state.allowed, state.allowed);
  EXPECT_EQ(admin.state.drained, state.drained);
  EXPECT_EQ(admin.state.drained_by, state.drained_by);
  EXPECT_EQ(admin.state.ignored, (std::vector{other, rule}));
  ASSERT_TRUE(admin.quotas.contains(key));
  EXPECT_EQ(admin.quotas.at(key).gpus, 3);
  EXPECT_EQ(admin.quotas.at(key).gpu_hours, 1.5);
  EXPECT_EQ(admin.quotas.at(key).shares, 2.5);
  EXPECT_EQ(admin.quotas.at(key).running_jobs, std::nullopt);
  ASSERT_TRUE(admin.reservations.contains(9));
  EXPECT_EQ(admin.reservations.at(9).devices, reservation.devices);
  EXPECT_EQ(admin.reservations.at(9).end, reservation.end);
  EXPECT_EQ(admin.last_number, 9);
}

TEST(QueueControlState, UnreadableRecordsAreLeftOut) {
  const QueueAdminSettings admin = ReadQueueAdminSettings({{"queue", "{"},
                                                           {"ignore/x", "{}"},
                                                           {"quota/user", "{}"},
                                                           {"reservation/1", "{}"},
                                                           {"from_the_future", "1"},
                                                           {"quota/user/ann", R"({"gpus":2})"}});
  EXPECT_FALSE(admin.state.paused);
  EXPECT_TRUE(admin.reservations.empty());
  EXPECT_EQ(admin.quotas.size(), 1U);
}

}  // namespace
}  // namespace gpuman::daemon
