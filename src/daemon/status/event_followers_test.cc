#include "daemon/status/event_followers.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

TEST(EventFollowers, OnePartyHasABoundedNumberOfThem) {
  EventFollowers followers;
  for (std::size_t i = 0; i < EventFollowers::kOfParty; ++i) EXPECT_TRUE(followers.Enter(1001));
  EXPECT_FALSE(followers.Enter(1001));
  EXPECT_TRUE(followers.Enter(1002)) << "another party";
  followers.Leave(1001);
  EXPECT_TRUE(followers.Enter(1001));
  EXPECT_FALSE(followers.Enter(1001));
}

TEST(EventFollowers, AnEventIsWrittenOnceForAll) {
  EventFollowers followers;
  jobs::Event event;
  event.id = 7;
  event.kind = "job_started";
  const auto* const first = followers.FrameOf(event).data();
  EXPECT_EQ(followers.FrameOf(event).data(), first);
  EXPECT_EQ(followers.FrameOf(event), EventFrame(event));
  event.id = 8;
  event.kind = "job_finished";
  EXPECT_EQ(followers.FrameOf(event), EventFrame(event));
  EXPECT_TRUE(followers.FrameOf(event).starts_with("id: 8\nevent: job_finished\ndata: {"));
}

}  // namespace
}  // namespace gpuman::daemon
