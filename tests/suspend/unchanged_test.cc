// Memory of which only what has changed is copied to the host, with the real mover; see moving_fixture.h.
#include <sys/mman.h>

#include <filesystem>

#include "inject.h"
#include "moving_fixture.h"

namespace gpuman::suspend {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{2} << 20;

class UnchangedTest : public MovingTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(MovingTest::SetUp());
    Prepare();
  }
  // As the daemon does: so much memory of this process may come to the host, and its copies may be kept.
  void Prepare() {
    const base::Bytes wanted{16 * kPiece};
    Get().SetUnchanged(base::ChangeDetection::kHash, /*hash_from=*/{});
    ASSERT_TRUE(Until([&] {
      Get().Prepare(user, {{Uuid(0), {wanted}}});
      return Get().Prepared(user) == wanted;
    }));
  }
  // The bytes that did not have to be copied.
  std::uint64_t Out(std::size_t from, std::size_t to) {
    const MoverAnswer answer = Wait(HandOut(from, to)->asked);
    EXPECT_EQ(answer.outcome, MoverOutcome::kDone) << answer.message;
    EXPECT_EQ(answer.bytes, base::Bytes{(to - from) * kPiece});
    return answer.unchanged.count;
  }
  MoverAnswer Back(bool taken = true) {
    base::Fd socket;
    const auto back = Begin({.verb = Verb::kGive}, &socket);
    EXPECT_EQ(TakeBack(socket.get()), taken);
    return Wait(back->asked);
  }
  // Memory that came back cannot be exported again: new memory at the same addresses takes its place.
  void MakeAnew(std::size_t pieces) {
    FreeAll();
    Make(pieces);
  }
  void Write(std::size_t piece, std::uint64_t at, std::uint8_t value) {
    Must(cuda->calls().cuMemcpyHtoD_v2(At(piece) + at, &value, 1));
  }
  std::uint8_t Read(std::size_t piece, std::uint64_t at) {
    std::uint8_t value = 0;
    Must(cuda->calls().cuMemcpyDtoH_v2(&value, At(piece) + at, 1));
    return value;
  }
  void ExpectZeros(std::size_t from, std::size_t to) {
    for (std::size_t piece = from; piece < to; ++piece) {
      std::vector<std::uint8_t> bytes(kPiece, 1);
      Must(cuda->calls().cuMemcpyDtoH_v2(bytes.data(), At(piece), kPiece));
      EXPECT_EQ(bytes, std::vector<std::uint8_t>(kPiece)) << "piece " << piece;
    }
  }
  // Makes pieces that have left once, and are to leave again.
  void MakeOnceOut(std::size_t pieces) {
    Make(pieces);
    EXPECT_EQ(Out(0, pieces), 0u) << "the first time";
    EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
    MakeAnew(pieces);
  }
  // Flips a bit in each page of the segments that the process has.
  void DamageHostMemory() {
    for (const auto& file : host) {
      std::error_code error;
      const auto name = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file.get()), error);
      if (name.string().find("gpuman-segment") == std::string::npos) continue;
      for (off_t at = 0; at < ::lseek(file.get(), 0, SEEK_END); at += 4096) {
        std::uint8_t byte = 0;
        ASSERT_EQ(::pread(file.get(), &byte, 1, at), 1);
        byte ^= 1;
        ASSERT_EQ(::pwrite(file.get(), &byte, 1, at), 1);
      }
    }
  }
};

class CheckedOftenTest : public UnchangedTest {
 protected:
  void SetUp() override {
    options.check_kept = base::Millis(20);
    options.on_damaged = [this](const MoverUser&, std::uint64_t chunks) { damaged += chunks; };
    ASSERT_NO_FATAL_FAILURE(UnchangedTest::SetUp());
  }
  // Flips a bit in each chunk of the mover's segments, and lets them go again. Returns how many.
  static std::size_t DamageSegmentsOf(pid_t mover) {
    std::size_t flipped = 0;
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(mover) + "/fd", error)) {
      const auto name = std::filesystem::read_symlink(entry, error);
      if (error || name.string().find("gpuman-segment") == std::string::npos) continue;
      const base::Fd file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
      for (off_t at = 0; file.ok() && at < ::lseek(file.get(), 0, SEEK_END);
           at += static_cast<off_t>(kChunk), ++flipped) {
        std::uint8_t byte = 0;
        EXPECT_EQ(::pread(file.get(), &byte, 1, at), 1);
        byte ^= 1;
        EXPECT_EQ(::pwrite(file.get(), &byte, 1, at), 1);
      }
    }
    return flipped;
  }

  std::uint64_t damaged = 0;
};

TEST_F(UnchangedTest, WhatTheHostHasIsNotCopiedAgain) {
  Make(6);
  EXPECT_EQ(Out(0, 6), 0u) << "the first time";
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  for (unsigned round = 0; round < 3; ++round) {
    MakeAnew(6);
    EXPECT_EQ(Out(0, 6), 6 * kPiece);
    EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
    ExpectWhole(6);
  }
}

TEST_F(UnchangedTest, OfOneByteItsChunkIsCopied) {
  MakeOnceOut(6);
  Write(3, kPiece - 1, 77);
  Write(5, 0, 78);
  EXPECT_EQ(Out(0, 6), 6 * kPiece - 2 * kChunk);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  EXPECT_EQ(Read(3, kPiece - 1), 77);
  EXPECT_EQ(Read(5, 0), 78);
  ExpectWhole(0, 3);
  MakeAnew(6);
  EXPECT_EQ(Out(0, 6), 6 * kPiece - 2 * kChunk) << "the bytes from before, in two chunks";
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

TEST_F(UnchangedTest, EachPieceFindsItsCopyWhateverLeavesWithIt) {
  MakeOnceOut(8);
  EXPECT_EQ(Out(5, 7), 2 * kPiece);
  EXPECT_EQ(Out(0, 3), 3 * kPiece);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(8);
  MakeAnew(8);
  EXPECT_EQ(Out(2, 8), 6 * kPiece) << "also of those that stayed last time";
  EXPECT_EQ(Out(0, 2), 2 * kPiece);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(8);
}

TEST_F(UnchangedTest, ZerosAreNotCopiedInEitherDirection) {
  MakeEmpty(0, 4);
  Make(4, 6);
  EXPECT_EQ(Out(0, 6), 4 * kPiece);
  Make(10, 16);  // whose memory may be used for what comes back
  EXPECT_EQ(Out(10, 16), 0u);
  const MoverAnswer back = Back();
  EXPECT_EQ(back.outcome, MoverOutcome::kDone) << back.message;
  EXPECT_EQ(back.unchanged, base::Bytes{4 * kPiece});
  ExpectZeros(0, 4);
  ExpectWhole(4, 6);
  ExpectWhole(10, 16);
}

TEST_F(UnchangedTest, ALaterMoverKnowsWhichChunksAreZeros) {
  MakeEmpty(0, 4);
  Make(4, 6);
  EXPECT_EQ(Out(0, 6), 4 * kPiece);
  const auto first = Get().MoverPid(user);
  ASSERT_TRUE(first);
  ::kill(*first, SIGKILL);
  ASSERT_TRUE(Until([&] { return Get().MoverPid(user) != first; }));
  const MoverAnswer back = Back();
  EXPECT_EQ(back.outcome, MoverOutcome::kDone) << back.message;
  EXPECT_EQ(back.unchanged, base::Bytes{4 * kPiece});
  ExpectWhole(4, 6);
  ExpectZeros(0, 4);
}

// The copies of the offer begin before the process goes back on it; what they overwrote is not believed
// afterwards, although the data are what they were before.
TEST_F(UnchangedTest, AnOfferThatTheProcessGoesBackOnLeavesNothingToBelieve) {
  MakeOnceOut(6);
  for (std::size_t piece = 0; piece < 6; ++piece) Write(piece, 5, 99);
  base::Fd socket;
  const auto given_up = Begin({.verb = Verb::kTake, .whole = true}, &socket);
  Offer(socket.get(), 0, 6);
  ASSERT_TRUE(Keep(socket.get())) << "so the mover has begun to copy";
  socket.Close();
  host.clear();
  EXPECT_EQ(Wait(given_up->asked).outcome, MoverOutcome::kFailed);
  MakeAnew(6);
  EXPECT_EQ(Out(0, 6), 0u);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

TEST_F(UnchangedTest, AMoverThatDiesTakesWhatItKnewWithIt) {
  Make(6);
  EXPECT_EQ(Out(0, 6), 0u);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  const auto first = Get().MoverPid(user);
  ASSERT_TRUE(first);
  ::kill(*first, SIGKILL);
  ASSERT_TRUE(Until([&] { return Get().MoverPid(user) != first; }));
  MakeAnew(6);
  EXPECT_EQ(Out(0, 6), 0u);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

TEST_F(UnchangedTest, ACopyThatTheProcessCanWriteIsNotBelieved) {
  Make(6);
  EXPECT_EQ(Out(0, 6), 0u);
  std::vector<base::Fd> kept;
  for (const auto& file : host) kept.emplace_back(::dup(file.get()));
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  MakeAnew(6);
  EXPECT_EQ(Out(0, 6), 0u);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  kept.clear();
  MakeAnew(6);
  EXPECT_EQ(Out(0, 6), 6 * kPiece) << "once nobody else has it";
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

TEST_F(UnchangedTest, HostMemoryThatChangedWhileItsProcessWasAwayIsNotBelieved) {
  Make(6);
  EXPECT_EQ(Out(0, 6), 0u);
  DamageHostMemory();
  const MoverAnswer back = Back(false);
  EXPECT_EQ(back.outcome, MoverOutcome::kFailed);
  EXPECT_NE(back.message.find("was changed while the process was away"), std::string::npos) << back.message;
  DamageHostMemory();  // which makes it what it was
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

// As a failing page of the host's memory does, while the job is on the GPU.
TEST_F(CheckedOftenTest, WhatTheMachineDamagesOfAKeptCopyIsCopiedAgain) {
  MakeOnceOut(6);
  const std::size_t flipped = DamageSegmentsOf(*Get().MoverPids().begin());
  if (flipped == 0) GTEST_SKIP() << "this user may not open the mover's files";
  ASSERT_TRUE(Until([&] {
    Get().Prepare(user, {{Uuid(0), {base::Bytes{16 * kPiece}}}});
    return damaged >= 6 * kPiece / kChunk;
  }));
  EXPECT_EQ(damaged, 6 * kPiece / kChunk);
  EXPECT_EQ(Out(0, 6), 0u) << "all is copied";
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

TEST_F(UnchangedTest, LittleMemoryIsCopiedWithoutALook) {
  Get().SetUnchanged(base::ChangeDetection::kHash, base::Bytes{4 * kPiece});
  MakeOnceOut(6);
  EXPECT_EQ(Out(0, 6), 6 * kPiece);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  MakeAnew(6);
  EXPECT_EQ(Out(0, 3), 0u) << "less than four leave together";
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(6);
  MakeAnew(6);
  EXPECT_EQ(Out(0, 6), 3 * kPiece) << "of those that left without a look nothing is known";
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

TEST_F(UnchangedTest, WhereItIsComparedAllIsCopiedAndRight) {
  Get().SetUnchanged(base::ChangeDetection::kCompare, /*hash_from=*/{});
  MakeEmpty(0, 2);
  Make(2, 6);
  EXPECT_EQ(Out(0, 6), 0u);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectZeros(0, 2);
  ExpectWhole(2, 6);
  MakeAnew(6);
  Write(3, 5, 77);
  const MoverAnswer again = Wait(HandOut(0, 6)->asked);
  EXPECT_EQ(again.outcome, MoverOutcome::kDone) << again.message;
  EXPECT_EQ(again.unchanged, base::Bytes{});
  EXPECT_EQ(again.misjudged, 0u);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  EXPECT_EQ(Read(3, 5), 77);
  ExpectWhole(0, 3);
}

TEST_F(UnchangedTest, SwitchedOffAllIsCopied) {
  MakeEmpty(0, 6);
  Get().SetUnchanged(base::ChangeDetection::kOff);
  for (unsigned round = 0; round < 2; ++round) {
    EXPECT_EQ(Out(0, 6), 0u);
    EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
    MakeAnew(6);
  }
  Get().SetUnchanged(base::ChangeDetection::kHash, /*hash_from=*/{});
  EXPECT_EQ(Out(0, 6), 0u);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  MakeAnew(6);
  EXPECT_EQ(Out(0, 6), 6 * kPiece) << "and switched on again";
}

// The driver does not load the mover's kernel.
class NotHashedTest : public UnchangedTest {
 protected:
  void SetUp() override {
    if (!std::getenv("GPUMAN_SIM_DIR")) GTEST_SKIP() << "needs gpuman-sim";
    Inject("module-fail --gpu 0");
    options.on_not_hashed = [this](const MoverUser&, const std::string& why) { told.push_back(why); };
    ASSERT_NO_FATAL_FAILURE(UnchangedTest::SetUp());
  }
  void TearDown() override {
    Inject("clear");
    UnchangedTest::TearDown();
  }
  std::vector<std::string> told;
};

TEST_F(NotHashedTest, AllIsCopiedAndItIsToldOnceWhy) {
  Make(6);
  for (unsigned round = 0; round < 2; ++round) {
    EXPECT_EQ(Out(0, 6), 0u);
    EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
    ExpectWhole(6);
    MakeAnew(6);
    Prepare();
  }
  EXPECT_TRUE(Until([&] {
    Prepare();
    return !told.empty();
  }));
  Prepare();
  EXPECT_THAT(told, ::testing::ElementsAre(::testing::AllOf(::testing::HasSubstr(Uuid(0)),
                                                            ::testing::HasSubstr("cuModuleLoadData"))));
}

TEST_F(UnchangedTest, NothingIsKeptOfWhatNeedNotLeave) {
  Make(6);
  EXPECT_EQ(Out(0, 6), 0u);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  Get().Prepare(user, {});
  Prepare();
  MakeAnew(6);
  EXPECT_EQ(Out(0, 6), 0u);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

TEST_F(UnchangedTest, OnAnotherGpuItBeginsAnew) {
  Make(6);
  EXPECT_EQ(Out(0, 6), 0u);
  base::Fd socket;
  const auto there = Begin({.verb = Verb::kGive, .gpu = Uuid(1)}, &socket);
  wire::TransferParts parts{};
  int files[wire::kMaxParts];
  unsigned count = 0;
  ASSERT_EQ(Await(socket.get(), parts, files, count), ssize_t{sizeof parts});
  ASSERT_EQ(parts.count, 0u);
  const wire::TransferReply own{wire::kReplyMagic, 0, 0, 0};
  ASSERT_TRUE(wire::SendWith(socket.get(), &own, sizeof own, nullptr, 0, 60'000));
  ASSERT_TRUE(Keep(socket.get()));
  MakeEmpty(0, 6);
  Offer(socket.get(), 0, 6);
  ASSERT_TRUE(Keep(socket.get())) << "it is filled";
  Receipt(socket.get());
  host.clear();
  EXPECT_EQ(Wait(there->asked).outcome, MoverOutcome::kDone);
  ExpectWhole(6);
  MakeAnew(6);
  EXPECT_EQ(Out(0, 6), 0u);
  EXPECT_EQ(Back().outcome, MoverOutcome::kDone);
  ExpectWhole(6);
}

}  // namespace
}  // namespace gpuman::suspend
