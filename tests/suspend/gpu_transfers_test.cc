// One process's memory of two GPUs, which leaves over a connection for each and comes back over one.
#include <algorithm>

#include "moving_fixture.h"

namespace gpuman::suspend {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kEach = 8;  // pieces on each GPU

class GpuTransfersTest : public MovingTest {
 protected:
  void SetUp() override {
    MovingTest::SetUp();
    Make(kEach);
    Make(kOther, kOther + kEach);
  }
  // Both GPUs' memory leaves.
  void HandOutAll() {
    const auto one = HandOut(0, kEach), other = HandOut(kOther, kOther + kEach);
    EXPECT_EQ(Wait(one->asked).outcome, MoverOutcome::kDone);
    EXPECT_EQ(Wait(other->asked).outcome, MoverOutcome::kDone);
  }
  void ExpectAllBack() {
    base::Fd socket;
    const auto back = Begin({.verb = Verb::kGive}, &socket);
    ASSERT_TRUE(TakeBack(socket.get()));
    EXPECT_EQ(Wait(back->asked).outcome, MoverOutcome::kDone);
    ExpectWhole(kEach);
    ExpectWhole(kOther, kOther + kEach);
  }
  void KillMover() {
    const auto pid = Get().MoverPid(user);
    ASSERT_TRUE(pid);
    ::kill(*pid, SIGKILL);
    ASSERT_TRUE(Until([&] { return Get().MoverPid(user) != pid; }));
  }
  void Grant(unsigned gpu, std::uint64_t pieces) {
    Get().Grant(user, base::SelfId(), Uuid(gpu), base::Bytes{pieces * kPiece});
  }
};

TEST_F(GpuTransfersTest, EachGpuHasItsOwnWayOutAndAllComesBackOverOneConnection) {
  const auto one = HandOut(0, kEach), other = HandOut(kOther, kOther + kEach);
  EXPECT_EQ(Wait(one->asked).gpu, Uuid(0));
  EXPECT_EQ(Wait(other->asked).gpu, Uuid(1));
  EXPECT_EQ(one->by_gpu, (std::map<std::string, std::uint64_t>{{Uuid(0), kEach * kPiece}}));
  EXPECT_EQ(other->by_gpu, (std::map<std::string, std::uint64_t>{{Uuid(1), kEach * kPiece}}));
  base::Fd socket;
  const auto back = Begin({.verb = Verb::kGive}, &socket);
  ASSERT_TRUE(TakeBack(socket.get()));
  const MoverAnswer answer = Wait(back->asked);
  EXPECT_EQ(answer.outcome, MoverOutcome::kDone) << answer.message;
  EXPECT_EQ(answer.bytes, base::Bytes{2 * kEach * kPiece});
  EXPECT_EQ(back->by_gpu[Uuid(0)], kEach * kPiece);
  EXPECT_EQ(back->by_gpu[Uuid(1)], kEach * kPiece);
  ExpectWhole(kEach);
  ExpectWhole(kOther, kOther + kEach);
}

// The first GPU's transfer stands still, because the process does not give its memory up.
TEST_F(GpuTransfersTest, OneGpusMemoryLeavesWhileAnothersIsStillOnItsWay) {
  base::Fd socket;
  const auto one = Begin({.verb = Verb::kTake, .whole = true}, &socket);
  Offer(socket.get(), 0, kEach);
  ASSERT_TRUE(Keep(socket.get()));
  EXPECT_EQ(Wait(HandOut(kOther, kOther + kEach)->asked).outcome, MoverOutcome::kDone);
  EXPECT_FALSE(one->asked->answer);
  GiveUp(socket.get(), 0, kEach);
  EXPECT_EQ(Wait(one->asked).outcome, MoverOutcome::kDone);
  ExpectAllBack();
}

TEST_F(GpuTransfersTest, OneGpusMemoryComesBackWhileAnothersWaitsForRoom) {
  HandOutAll();
  const auto one = Begin({.verb = Verb::kLoad, .source = Uuid(0), .room = base::Bytes{2 * kPiece}});
  ASSERT_TRUE(Until([&] { return one->bytes == 2 * kPiece; }));
  const auto other = Begin({.verb = Verb::kLoad, .source = Uuid(1), .room = base::Bytes{}});
  Grant(1, kEach);
  EXPECT_EQ(Wait(other->asked).outcome, MoverOutcome::kDone);
  EXPECT_EQ(other->bytes, kEach * kPiece);
  EXPECT_EQ(one->bytes, 2 * kPiece) << "room on one GPU is none on another";
  Grant(0, kEach - 2);
  EXPECT_EQ(Wait(one->asked).outcome, MoverOutcome::kDone);
  ExpectAllBack();
}

TEST_F(GpuTransfersTest, CallingOneGpuOffLeavesTheOtherLoaded) {
  HandOutAll();
  EXPECT_EQ(Wait(Begin({.verb = Verb::kLoad, .source = Uuid(1)})->asked).outcome, MoverOutcome::kDone);
  const auto one = Begin({.verb = Verb::kLoad, .source = Uuid(0), .room = base::Bytes{2 * kPiece}});
  ASSERT_TRUE(Until([&] { return one->bytes == 2 * kPiece; }));
  EXPECT_EQ(Wait(Begin({.verb = Verb::kSecure, .source = Uuid(0)})->asked).outcome, MoverOutcome::kDone);
  EXPECT_EQ(Wait(one->asked).outcome, MoverOutcome::kNoRoom);
  base::Fd socket;
  const auto back = Begin({.verb = Verb::kGive}, &socket);
  ASSERT_TRUE(TakeBack(socket.get()));
  EXPECT_EQ(Wait(back->asked).bytes, base::Bytes{kEach * kPiece}) << "the other was there";
  ExpectWhole(kEach);
  ExpectWhole(kOther, kOther + kEach);
}

// As a daemon does that knows of one GPU only.
TEST_F(GpuTransfersTest, RoomWithoutASourceIsForAllGpusInSum) {
  HandOutAll();
  base::Fd socket;
  auto back = Begin({.verb = Verb::kGive, .room = base::Bytes{5 * kPiece}}, &socket);
  ASSERT_TRUE(Until([&] { return back->bytes == 5 * kPiece; }));
  EXPECT_EQ(Wait(Begin({.verb = Verb::kSecure})->asked).outcome, MoverOutcome::kDone);
  EXPECT_EQ(Wait(back->asked).outcome, MoverOutcome::kNoRoom);
  wire::OrderError error{};
  EXPECT_FALSE(TakeBack(socket.get(), &error));
  EXPECT_EQ(error, wire::OrderError::kNoRoom);
  FreeAll();
  back = Begin({.verb = Verb::kGive, .room = base::Bytes{5 * kPiece}}, &socket);
  Get().Grant(user, base::SelfId(), {}, base::Bytes{(2 * kEach - 5) * kPiece});
  ASSERT_TRUE(TakeBack(socket.get()));
  EXPECT_EQ(Wait(back->asked).outcome, MoverOutcome::kDone);
  ExpectWhole(kEach);
  ExpectWhole(kOther, kOther + kEach);
}

// The second GPU's piece comes in the first message, or in a later one.
TEST_F(GpuTransfersTest, MemoryOfTwoGpusInOneTransferIsRefusedAndStaysTheProcesss) {
  for (const std::size_t of_first : {2u, 7u}) {
    base::Fd socket;
    const auto mixed = Begin({.verb = Verb::kTake, .whole = true}, &socket);
    std::vector<std::size_t> pieces;
    for (std::size_t i = 0; i < of_first; ++i) pieces.push_back(i);
    pieces.push_back(kOther);
    OfferPieces(socket.get(), pieces);
    EXPECT_FALSE(Keep(socket.get()));
    const MoverAnswer answer = Wait(mixed->asked);
    EXPECT_EQ(answer.outcome, MoverOutcome::kFailed);
    EXPECT_THAT(answer.message, HasSubstr("several GPUs"));
  }
  ExpectWhole(kEach);
  ExpectWhole(kOther, kOther + kEach);
  HandOutAll();
  ExpectAllBack();
}

TEST_F(GpuTransfersTest, MemoryOfTwoGpusDoesNotComeBackToOne) {
  HandOutAll();
  for (const std::string& source : {std::string(), Uuid(0)}) {
    const MoverAnswer answer = Wait(Begin({.verb = Verb::kLoad, .gpu = Uuid(1), .source = source})->asked);
    EXPECT_EQ(answer.outcome, MoverOutcome::kFailed);
    EXPECT_THAT(answer.message, HasSubstr("cannot"));
  }
  ExpectAllBack();
}

TEST_F(GpuTransfersTest, AProcessThatCannotImportGetsBothInItsOwnMemory) {
  HandOutAll();
  base::Fd socket;
  const auto back = Begin({.verb = Verb::kGive}, &socket);
  wire::TransferParts parts{};
  int files[wire::kMaxParts];
  unsigned count = 0;
  do {
    ASSERT_EQ(Await(socket.get(), parts, files, count), ssize_t{sizeof parts});
    for (unsigned i = 0; i < count; ++i) ::close(files[i]);
  } while (parts.last == 0);
  const wire::TransferReply own{wire::kReplyMagic, 0, 0, 0};
  ASSERT_TRUE(wire::SendWith(socket.get(), &own, sizeof own, nullptr, 0, 60'000));
  ASSERT_TRUE(Keep(socket.get()));
  MakeEmpty(0, kEach);
  MakeEmpty(kOther, kOther + kEach);
  std::vector<std::size_t> pieces;
  for (std::size_t i = 0; i < kEach; ++i) pieces.insert(pieces.end(), {i, kOther + i});
  OfferPieces(socket.get(), pieces);
  ASSERT_TRUE(Keep(socket.get()));
  Receipt(socket.get());
  const MoverAnswer answer = Wait(back->asked);
  EXPECT_EQ(answer.bytes, base::Bytes{2 * kEach * kPiece}) << answer.message;
  ExpectWhole(kEach);
  ExpectWhole(kOther, kOther + kEach);
}

TEST_F(GpuTransfersTest, HostMemoryIsReadyForEachGpuAndTheMoverHasItsContexts) {
  const HostDemand demand{{Uuid(0), {base::MiB(64)}}, {Uuid(1), {base::MiB(64), base::MiB(64)}}};
  ASSERT_TRUE(Until([&] {
    Get().Prepare(user, demand);
    return Get().Prepared(user) == base::MiB(192);
  }));
  for (const unsigned gpu : {0u, 1u}) {
    const auto processes = nvml->ComputeProcesses(Device(gpu)).value();
    EXPECT_TRUE(std::ranges::any_of(processes,
                                    [&](const auto& process) { return process.pid == Get().MoverPid(user); }))
        << "GPU " << gpu;
  }
  Get().Prepare(user, {});
}

TEST_F(GpuTransfersTest, TheNextMoverFindsBothInTheProcess) {
  HandOutAll();
  KillMover();
  EXPECT_EQ(Wait(Begin({.verb = Verb::kLoad, .source = Uuid(1)})->asked).outcome, MoverOutcome::kDone);
  ExpectAllBack();
}

TEST_F(GpuTransfersTest, TheNextMoverFindsOneGpusMemoryThoughItHasJustTakenAnothers) {
  EXPECT_EQ(Wait(HandOut(0, kEach)->asked).outcome, MoverOutcome::kDone);
  KillMover();
  EXPECT_EQ(Wait(HandOut(kOther, kOther + kEach)->asked).outcome, MoverOutcome::kDone);
  ExpectAllBack();
}

TEST_F(GpuTransfersTest, AMoverThatDiesWithOneGpusMemoryWholeAndAnothersHalfIsFollowed) {
  for (unsigned round = 0; round < 3; ++round) {
    EXPECT_EQ(Wait(HandOut(0, kEach)->asked).outcome, MoverOutcome::kDone);
    const auto half = HandOut(kOther, kOther + kEach);
    ASSERT_TRUE(
        Until([&] { return half->asked->answer || (half->taken && half->bytes >= round * 3 * kPiece); }));
    if (const auto pid = Get().MoverPid(user)) ::kill(*pid, SIGKILL);
    const MoverAnswer answer = Wait(half->asked);
    EXPECT_TRUE(answer.outcome == MoverOutcome::kLost || answer.outcome == MoverOutcome::kDone)
        << answer.message;
    MoverAnswer secured = Wait(Begin({.verb = Verb::kSecure, .source = Uuid(1)})->asked);
    if (secured.outcome == MoverOutcome::kLost)  // the request went to a mover that was just killed
      secured = Wait(Begin({.verb = Verb::kSecure, .source = Uuid(1)})->asked);
    EXPECT_EQ(secured.outcome, MoverOutcome::kDone) << secured.message;
    ExpectAllBack();
    FreeAll();
    Make(kEach);
    Make(kOther, kOther + kEach);
  }
}

// Both are copied out when the mover dies: its follower gets the descriptors of each.
TEST_F(GpuTransfersTest, AMoverThatDiesWithBothHalfIsFollowed) {
  const auto one = HandOut(0, kEach), other = HandOut(kOther, kOther + kEach);
  if (const auto pid = Get().MoverPid(user)) ::kill(*pid, SIGKILL);
  EXPECT_TRUE(Until([&] { return one->asked->answer && other->asked->answer; }));
  MoverAnswer secured = Wait(Begin({.verb = Verb::kSecure})->asked);
  if (secured.outcome == MoverOutcome::kLost) secured = Wait(Begin({.verb = Verb::kSecure})->asked);
  EXPECT_EQ(secured.outcome, MoverOutcome::kDone) << secured.message;
  ExpectAllBack();
}

}  // namespace
}  // namespace gpuman::suspend
