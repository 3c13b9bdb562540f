// Tests jobs that are suspended to make room for others: they come back by themselves.
#include "suspend/test_state_machine.h"

namespace gpuman::suspend {
namespace {

Words Push(Story& story) {
  return story.Feed(event::SuspendAsked{"device_pressure", "GPU 0 is full", base::Millis(10'000)});
}

TEST(SuspensionPushedOff, GoesOutAndWantsBackSayingWhyItIsAway) {
  Story story;
  story.Process(11, GiB(2));
  story.Observe();
  EXPECT_THAT(Push(story), ElementsAre("= suspending device_pressure", "can?"));
  EXPECT_EQ(story.Detail(), "GPU 0 is full");
  story.Can(true);
  EXPECT_THAT(story.Checkpointed(11), ElementsAre("= suspended device_pressure", "! job_suspended"));
  EXPECT_EQ(story.Detail(), "GPU 0 is full; 2GiB are in host memory");
  EXPECT_TRUE(story.machine.Needs(story.now));
  story.Observe();
  EXPECT_THAT(story.Room(GiB(1)), ElementsAre("= suspended device_pressure"));
  EXPECT_THAT(story.Detail(), HasSubstr("GPU 0 is full; waits for 2GiB on GPU a, where 1GiB are free"));
  story.now += std::chrono::minutes(1);
  story.Feed(event::RoomAvailable{{{"a", GiB(3)}}, false, true});
  EXPECT_THAT(story.Detail(), HasSubstr("comes back when the room that there is now lasts for 10s"));
  EXPECT_THAT(story.Room(GiB(3)), ElementsAre("= resuming resuming", "restore 11"));
  EXPECT_THAT(story.Restored(11), ElementsAre("= running", "! job_resumed"));
  EXPECT_FALSE(story.machine.record().absence);
}

TEST(SuspensionPushedOff, StaysAwayWhereItsUserHoldsIt) {
  Story story;
  story.Process(11, GiB(2));
  story.Observe();
  story.Suspend();
  EXPECT_THAT(Push(story), IsEmpty()) << "on its way out for its user";
  story.Can(true);
  story.Checkpointed(11);
  EXPECT_THAT(Push(story), IsEmpty());
  EXPECT_FALSE(story.machine.Needs(story.now));
  Story later;
  later.Process(11, GiB(2));
  later.Observe();
  Push(later);
  later.Can(true);
  later.Checkpointed(11);
  EXPECT_THAT(later.Suspend(), ElementsAre("= suspended held_by_user"));
  EXPECT_FALSE(later.machine.Needs(later.now));
}

TEST(SuspensionPushedOff, IsNotCalledOffByItsUserButComesBackAsSoonAsThereIsRoom) {
  Story story;
  story.Process(11, GiB(2));
  story.Observe();
  Push(story);
  EXPECT_THAT(story.Resume(), IsEmpty());
  story.Can(true);
  EXPECT_THAT(story.Checkpointed(11), ElementsAre("= suspended device_pressure", "! job_suspended"));
  EXPECT_FALSE(story.machine.record().absence);
  EXPECT_TRUE(story.machine.Needs(story.now));
}

TEST(SuspensionPushedOff, RunsOnWithTheReasonWhereItCannotGo) {
  Story story;
  story.Process(11, GiB(2));
  story.Observe();
  Push(story);
  EXPECT_THAT(story.Can(false), ElementsAre("= undoing suspend_unsupported", "! suspend_unsupported",
                                            "= running suspend_unsupported"));
  EXPECT_FALSE(story.machine.record().absence);
}

}  // namespace
}  // namespace gpuman::suspend
