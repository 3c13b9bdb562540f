#include "daemon/queue/queue_admin_settings_writer.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace gpuman::daemon {
namespace {

class QueueAdminSettingsWriterTest : public testing::Test {
 protected:
  // Raises ann's quota by one job.
  void RaiseQuota() {
    writer.Do(
        [](const QueueAdminSettings& now) -> base::Result<QueueAdminSettingsWriter::Change> {
          api::QuotaLimits limits = now.quotas.contains(kAnn) ? now.quotas.at(kAnn) : api::QuotaLimits{};
          limits.running_jobs = limits.running_jobs.value_or(0) + 1;
          return QueueAdminSettingsWriter::Change{
              {Entry(kAnn, limits)},
              [limits](QueueAdminSettings& changed) { changed.quotas[kAnn] = limits; }};
        },
        Noted());
  }
  // Takes the number if no reservation has it.
  void Reserve(std::int64_t number) {
    writer.Do(
        [number](const QueueAdminSettings& now) -> base::Result<QueueAdminSettingsWriter::Change> {
          if (now.reservations.contains(number)) return base::Fail(base::ErrorCode::kConflict, "taken");
          return QueueAdminSettingsWriter::Change{
              {{KeyOfReservation(number), "{}"}},
              [number](QueueAdminSettings& changed) { changed.reservations[number] = {}; }};
        },
        Noted());
  }
  QueueAdminSettingsWriter::Done Noted() {
    return [this](const base::Result<>& outcome) {
      answers.push_back(outcome ? "done" : outcome.error().message);
    };
  }
  void Written(base::Result<> outcome) {
    const auto done = std::exchange(writing, nullptr);
    ASSERT_TRUE(done);
    done(std::move(outcome));
  }

  static inline const QuotaKey kAnn{"user", "ann"};
  QueueAdminSettings admin;
  std::vector<jobs::SettingRows> written;
  QueueAdminSettingsWriter::Done writing;
  int changes = 0;
  QueueAdminSettingsWriter writer{admin,
                                  [this](jobs::SettingRows entries, QueueAdminSettingsWriter::Done done) {
                                    EXPECT_FALSE(writing) << "one at a time";
                                    written.push_back(std::move(entries));
                                    writing = std::move(done);
                                  },
                                  [this] { ++changes; }};
  std::vector<std::string> answers;
};

TEST_F(QueueAdminSettingsWriterTest, ConcurrentChangesOfOneQuotaAreBothKept) {
  RaiseQuota();
  RaiseQuota();
  EXPECT_TRUE(admin.quotas.empty()) << "nothing holds before it is written";
  Written({});
  Written({});
  EXPECT_EQ(admin.quotas.at(kAnn).running_jobs, 2);
  EXPECT_EQ(written.at(1).at(KeyOf(kAnn)), Entry(kAnn, admin.quotas.at(kAnn)).second);
  EXPECT_EQ(answers, (std::vector<std::string>{"done", "done"}));
  EXPECT_EQ(changes, 2);
}

TEST_F(QueueAdminSettingsWriterTest, ConflictingConcurrentChangesAreMadeOnceAndRefusedOnce) {
  Reserve(7);
  Reserve(7);
  Reserve(8);
  Written({});
  Written({});
  EXPECT_EQ(answers, (std::vector<std::string>{"done", "taken", "done"}));
  EXPECT_EQ(written.size(), 2u);
}

TEST_F(QueueAdminSettingsWriterTest, AFailedWriteChangesNothing) {
  RaiseQuota();
  RaiseQuota();
  Reserve(7);
  Written(base::Fail(base::ErrorCode::kExhausted, "full"));
  Written({});
  Written(base::Fail(base::ErrorCode::kExhausted, "full"));
  EXPECT_EQ(admin.quotas.at(kAnn).running_jobs, 1);
  EXPECT_TRUE(admin.reservations.empty());
  EXPECT_EQ(answers, (std::vector<std::string>{"full", "done", "full"}));
}

TEST_F(QueueAdminSettingsWriterTest, ACallbackMayStartAChange) {
  int asked = 0;
  writer.Do(
      [](const QueueAdminSettings&) -> base::Result<QueueAdminSettingsWriter::Change> {
        return base::Fail(base::ErrorCode::kConflict, "no");
      },
      [&](const base::Result<>&) {
        ++asked;
        RaiseQuota();
        RaiseQuota();
      });
  Written({});
  Written({});
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(admin.quotas.at(kAnn).running_jobs, 2);
}

}  // namespace
}  // namespace gpuman::daemon
