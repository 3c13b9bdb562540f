// Memory moves in parts, with a mover that may die.
#include "moving_fixture.h"

namespace gpuman::suspend {
namespace {

TEST_F(MovingTest, LeavesInPartsAndComesBackWithinTheRoomThatIsGranted) {
  Make(12);
  const auto first = HandOut(0, 7);
  EXPECT_EQ(Wait(first->asked).outcome, MoverOutcome::kDone);
  EXPECT_TRUE(first->taken);
  EXPECT_EQ(first->bytes, 7 * kPiece) << "every byte that left was told";
  const auto second = HandOut(7, 10);
  EXPECT_EQ(Wait(second->asked).outcome, MoverOutcome::kDone);
  EXPECT_EQ(second->bytes, 3 * kPiece);
  base::Fd socket;
  const auto back = Begin({.verb = Verb::kGive, .room = base::Bytes{2 * kPiece}}, &socket);
  ASSERT_TRUE(Until([&] { return back->bytes == 2 * kPiece; }));
  Get().Grant(user, base::SelfId(), {}, base::Bytes{kPiece});
  ASSERT_TRUE(Until([&] { return back->bytes == 3 * kPiece; }));
  EXPECT_FALSE(back->asked->answer);
  Get().Grant(user, base::SelfId(), {}, base::Bytes{7 * kPiece});
  ASSERT_TRUE(TakeBack(socket.get()));
  EXPECT_EQ(Wait(back->asked).outcome, MoverOutcome::kDone);
  EXPECT_EQ(back->bytes, 10 * kPiece);
  ExpectWhole(12);
}

TEST_F(MovingTest, ARestoreThatWaitsForRoomCanBeCancelled) {
  Make(6);
  EXPECT_EQ(Wait(HandOut(0, 6)->asked).outcome, MoverOutcome::kDone);
  base::Fd socket;
  const auto back = Begin({.verb = Verb::kGive, .room = base::Bytes{2 * kPiece}}, &socket);
  ASSERT_TRUE(Until([&] { return back->bytes == 2 * kPiece; }));
  const auto off = Begin({.verb = Verb::kSecure});
  EXPECT_EQ(Wait(back->asked).outcome, MoverOutcome::kNoRoom);
  EXPECT_EQ(Wait(off->asked).outcome, MoverOutcome::kDone);
  wire::OrderError error{};
  EXPECT_FALSE(TakeBack(socket.get(), &error));
  EXPECT_EQ(error, wire::OrderError::kNoRoom);
  FreeAll();
  const auto again = Begin({.verb = Verb::kGive}, &socket);
  ASSERT_TRUE(TakeBack(socket.get()));
  EXPECT_EQ(Wait(again->asked).outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

TEST_F(MovingTest, AnOfferThatTheProcessWentBackOnTouchesNothingOfTheOneThatItThenMade) {
  Make(6);
  Pair early = Connect();
  Offer(early.ours.get(), 0, 6);
  early.ours.Close();
  EXPECT_EQ(Wait(HandOut(0, 6)->asked).outcome, MoverOutcome::kDone);
  const auto late = Begin({.verb = Verb::kTake, .whole = true}, std::move(early.theirs));
  EXPECT_EQ(Wait(late->asked).outcome, MoverOutcome::kFailed);
  base::Fd socket;
  const auto back = Begin({.verb = Verb::kGive}, &socket);
  ASSERT_TRUE(TakeBack(socket.get()));
  EXPECT_EQ(Wait(back->asked).outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

TEST_F(MovingTest, AProcessThatCannotImportIsCopiedIntoItsOwnMemory) {
  Make(7);
  EXPECT_EQ(Wait(HandOut(2, 6)->asked).outcome, MoverOutcome::kDone);
  EXPECT_EQ(Wait(HandOut(0, 2)->asked).outcome, MoverOutcome::kDone);
  EXPECT_EQ(Wait(HandOut(6, 7)->asked).outcome, MoverOutcome::kDone);
  base::Fd socket;
  const auto back = Begin({.verb = Verb::kGive}, &socket);
  ASSERT_NO_FATAL_FAILURE(MakeOwn(socket.get(), 7));
  const MoverAnswer answer = Wait(back->asked);
  EXPECT_EQ(answer.outcome, MoverOutcome::kDone) << answer.message;
  EXPECT_EQ(answer.bytes, base::Bytes{7 * kPiece});
  ExpectWhole(7);
}

TEST_F(MovingTest, MemoryOnTheGpuOutlivesAMoverAfterAnAbortedRestore) {
  Make(6);
  base::Fd socket;
  // It goes to the other GPU: the memory stays, and the other GPU reads it.
  const auto out = Begin({.verb = Verb::kTake, .gpu = Uuid(1)}, &socket);
  Offer(socket.get(), 0, 6);
  ASSERT_TRUE(Keep(socket.get()));
  GiveUp(socket.get(), 0, 6);
  EXPECT_EQ(Wait(out->asked).outcome, MoverOutcome::kDone);
  const MoverAnswer stays = Wait(Begin({.verb = Verb::kSecure, .gpu = Uuid(1)})->asked);
  ASSERT_TRUE(stays.straight) << stays.message;
  const auto back = Begin({.verb = Verb::kGive}, &socket);
  socket.Close();
  EXPECT_EQ(Wait(back->asked).outcome, MoverOutcome::kFailed);
  const auto first = Get().MoverPid(user);
  ASSERT_TRUE(first);
  ::kill(*first, SIGKILL);
  ASSERT_TRUE(Until([&] { return Get().MoverPid(user) != first; }));
  const auto again = Begin({.verb = Verb::kGive}, &socket);
  ASSERT_TRUE(TakeBack(socket.get()));
  EXPECT_EQ(Wait(again->asked).outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

TEST_F(MovingTest, AMoverThatDiesWhileItCopiesOutIsFollowedByAnotherThatGoesOn) {
  Make(40);
  for (unsigned round = 0; round < 3; ++round) {
    EXPECT_EQ(Wait(HandOut(0, 4)->asked).outcome, MoverOutcome::kDone) << "a batch that is whole already";
    const auto out = HandOut(4, 40);
    ASSERT_TRUE(
        Until([&] { return out->asked->answer || (out->taken && out->bytes >= round * 12 * kPiece); }));
    if (const auto pid = Get().MoverPid(user)) ::kill(*pid, SIGKILL);
    const MoverAnswer answer = Wait(out->asked);
    EXPECT_TRUE(answer.outcome == MoverOutcome::kLost || answer.outcome == MoverOutcome::kDone)
        << answer.message;
    MoverAnswer secured = Wait(Begin({.verb = Verb::kSecure})->asked);
    if (secured.outcome == MoverOutcome::kLost)  // the request went to a mover that was just killed
      secured = Wait(Begin({.verb = Verb::kSecure})->asked);
    EXPECT_EQ(secured.outcome, MoverOutcome::kDone) << secured.message;
    base::Fd socket;
    const auto back = Begin({.verb = Verb::kGive}, &socket);
    ASSERT_TRUE(TakeBack(socket.get()));
    EXPECT_EQ(Wait(back->asked).outcome, MoverOutcome::kDone);
    ExpectWhole(40);
    FreeAll();
    Make(40);
  }
}

}  // namespace
}  // namespace gpuman::suspend
