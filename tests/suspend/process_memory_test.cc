// What a mover has of a process, with this process in the shim's place.
#include "mover/process_memory.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

#include "gpus_fixture.h"

namespace gpuman::mover {
namespace {

using suspend::MoverAnswer;
using suspend::MoverOutcome;
namespace wire = ledger::wire;

constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;

class ProcessMemoryTest : public GpusTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(GpusTest::SetUp());
    pool.emplace(*gpus);
    memory.emplace(base::SelfId(), *gpus, *pool, free_list, kept, hashing);
  }
  // Hands out one piece, and keeps the host memory that comes for it.
  MoverAnswer HandOut(EvictionEpoch absence) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    const base::Fd ours(pair[0]);
    MoverAnswer answer;
    std::thread mover([&, theirs = base::Fd(pair[1])]() mutable {
      answer = memory->Take(std::move(theirs), /*whole=*/true, {}, absence, nobody);
    });
    auto piece = gpus->Create(0, kPiece);
    EXPECT_TRUE(piece);
    EXPECT_EQ(cuda->calls().cuMemsetD8_v2(piece->address(), 1, kPiece), driver::abi::CUDA_SUCCESS);
    const auto file = gpus->Export(*piece);
    EXPECT_TRUE(file);
    const int number = file->get();
    const wire::TransferParts parts{wire::kPartsMagic, 1, 1, 0, kPiece, {{0x700000000000, kPiece}}};
    EXPECT_TRUE(wire::SendWith(ours.get(), &parts, sizeof parts, &number, 1, 60'000));
    for (wire::TransferReply reply{}; reply.last == 0 && reply.error == 0;) {
      int files[wire::kMaxParts];
      unsigned count = 0;
      if (wire::ReceiveWith(ours.get(), &reply, sizeof reply, files, count, 60'000) != sizeof reply) break;
      for (unsigned i = 0; i < count; ++i) host.emplace_back(files[i]);
    }
    *piece = {};
    const wire::TransferReply receipt{wire::kReplyMagic, 0, 1, 0};
    EXPECT_TRUE(wire::SendWith(ours.get(), &receipt, sizeof receipt, nullptr, 0, 60'000));
    mover.join();
    return answer;
  }

  // Takes the memory that comes back, and frees it.
  MoverAnswer TakeBack() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    const base::Fd ours(pair[0]);
    MoverAnswer answer;
    std::thread mover(
        [&, theirs = base::Fd(pair[1])]() mutable { answer = memory->Give(std::move(theirs), {}, nobody); });
    for (wire::TransferParts parts{}; parts.last == 0;) {
      int files[wire::kMaxParts];
      unsigned count = 0;
      if (wire::ReceiveWith(ours.get(), &parts, sizeof parts, files, count, 60'000) != sizeof parts) break;
      for (unsigned i = 0; i < count; ++i) ::close(files[i]);
    }
    const wire::TransferReply receipt{wire::kReplyMagic, 0, 1, 0};
    EXPECT_TRUE(wire::SendWith(ours.get(), &receipt, sizeof receipt, nullptr, 0, 60'000));
    mover.join();
    host.clear();
    return answer;
  }

  TransferProgressListener nobody;
  std::vector<base::Fd> host;
  GpuMemoryFreeList free_list;
  KeptCopiesBudget kept;
  HashingRule hashing;
  std::optional<SegmentPool> pool;
  std::optional<ProcessMemory> memory;
};

// The daemon says that the process has its memory, and orders it to leave again; the first is carried out
// last.
TEST_F(ProcessMemoryTest, ALateForgetTakesNothingOfTheNextAbsence) {
  EXPECT_EQ(HandOut(memory->epoch()).outcome, MoverOutcome::kDone);
  const EvictionEpoch over = memory->Forget();
  const EvictionEpoch next = memory->epoch();
  EXPECT_EQ(HandOut(next).outcome, MoverOutcome::kDone);
  memory->Drop({}, over);
  EXPECT_EQ(memory->Secure({}, {}, nobody).outcome, MoverOutcome::kDone) << "it is there";
  memory->Drop({}, memory->Forget());
  EXPECT_EQ(memory->Secure({}, {}, nobody).outcome, MoverOutcome::kNothing);
}

TEST_F(ProcessMemoryTest, AForgetTakesWhatWasTakenBeforeIt) {
  EXPECT_EQ(HandOut(memory->epoch()).outcome, MoverOutcome::kDone);
  memory->Drop({}, memory->Forget());
  EXPECT_EQ(memory->Secure({}, {}, nobody).outcome, MoverOutcome::kNothing);
}

// What an earlier mover took is found late: by then the daemon may have spoken of an absence before.
TEST_F(ProcessMemoryTest, ALateForgetTakesNothingOfAnEarlierMover) {
  EXPECT_EQ(HandOut(memory->epoch()).outcome, MoverOutcome::kDone);
  memory.emplace(base::SelfId(), *gpus, *pool, free_list, kept, hashing);
  const EvictionEpoch over = memory->Forget();
  EXPECT_EQ(memory->Secure({}, {}, nobody).outcome, MoverOutcome::kDone) << "it is found";
  memory->Drop({}, over);
  EXPECT_EQ(memory->Secure({}, {}, nobody).outcome, MoverOutcome::kDone) << "it is there";
}

TEST_F(ProcessMemoryTest, TheHostMemoryOfAProcessThatEndedIsThePools) {
  kept.SetLimit(kSmallSegment);
  EXPECT_EQ(HandOut(memory->epoch()).outcome, MoverOutcome::kDone);
  EXPECT_EQ(TakeBack().outcome, MoverOutcome::kDone);
  EXPECT_EQ(kept.bytes(), kPiece);
  memory->Drop({}, memory->Forget());
  EXPECT_EQ(kept.bytes(), kPiece) << "its process has all of its memory, and lives";
  EXPECT_EQ(pool->free_bytes(), 0u);
  memory->End();
  EXPECT_EQ(kept.bytes(), 0u);
  EXPECT_EQ(pool->free_bytes(), kSmallSegment);
}

}  // namespace
}  // namespace gpuman::mover
