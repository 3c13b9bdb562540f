#include "daemon/sharing/shared_job.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

TEST(SharedJobOptions, AreThoseThatTheUserAskedForWithTheShareAsAPart) {
  spec::RunOptions asked;
  EXPECT_EQ(TenantOptionsOf(asked), (share::TenantOptions{.priority = spec::kUsualPriority}));
  asked.weight = 2.5;
  asked.priority = 7;
  asked.interactive = asked.latency = true;
  asked.compute = {25, true};
  const share::TenantOptions options{
      .weight = 2.5, .priority = 7, .interactive = true, .compute = {{0.25, true}}, .latency = true};
  EXPECT_EQ(TenantOptionsOf(asked), options);
}

}  // namespace
}  // namespace gpuman::daemon
