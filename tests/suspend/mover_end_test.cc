// The daemon ends at any moment while gpuman-mover, which outlives it, is at work: on the simulated driver,
// with this program as the process whose memory moves.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/process.h"
#include "gpus_fixture.h"
#include "ledger/wire/transfer.h"
#include "mover/packet.h"
#include "suspend/mover_link.h"
#include "suspend/request.h"

namespace gpuman::mover {
namespace {

namespace abi = driver::abi;
namespace wire = ledger::wire;
using base::Fd;
using suspend::MoverAnswer;
using suspend::MoverOutcome;
using suspend::MoverRequest;
using suspend::Verb;

constexpr std::uint64_t kBytes = std::uint64_t{4} << 20;
constexpr int kPatience = 60'000;  // milliseconds

// Threads that want all processors, so that a mover's threads run in any order.
class Noise {
 public:
  Noise() {
    const unsigned count = 2 * std::max(1u, std::thread::hardware_concurrency());
    for (unsigned i = 0; i < count; ++i)
      threads_.emplace_back([this] {
        while (!over_.load(std::memory_order_relaxed)) {
        }
      });
  }
  ~Noise() {
    over_ = true;
    for (auto& thread : threads_) thread.join();
  }
  Noise(const Noise&) = delete;
  Noise& operator=(const Noise&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

struct Connection {
  Connection() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    ours = Fd(ends[0]);
    theirs = Fd(ends[1]);
  }
  Fd ours, theirs;
};

class MoverEndTest : public GpusTest {
 protected:
  base::SpawnedChild Start() {
    const auto program = std::filesystem::path(std::getenv("GPUMAN_BUILD_DIR")) / "bin/gpuman-mover";
    auto started = suspend::SpawnMover({program, {}}, {::geteuid(), ::getegid(), {}});
    EXPECT_TRUE(started) << started.error().message;
    EXPECT_TRUE(ReceivePacket(started->socket.get())) << "its greeting";
    return std::move(*started);
  }

  static void Ask(const base::SpawnedChild& mover, const MoverRequest& request, const Fd& connection) {
    const int file = connection.get();
    ASSERT_TRUE(SendPacket(mover.socket.get(), suspend::Serialize(request), std::span(&file, 1)));
  }

  // Hands memory out as a shim does; this process keeps the host memory with the data.
  void HandOut(const Fd& connection, unsigned char value) {
    auto memory = gpus->Create(0, kBytes);
    ASSERT_TRUE(memory);
    ASSERT_EQ(cuda->calls().cuMemsetD8_v2(memory->address(), value, kBytes), abi::CUDA_SUCCESS);
    ASSERT_EQ(cuda->calls().cuCtxSynchronize(), abi::CUDA_SUCCESS);
    const auto file = gpus->Export(*memory);
    ASSERT_TRUE(file);
    wire::TransferParts parts{wire::kPartsMagic, 1, 1, 0, kBytes, {}};
    parts.part[0] = {memory->address(), kBytes};
    const int exported = file->get();
    ASSERT_TRUE(wire::SendWith(connection.get(), &parts, sizeof parts, &exported, 1, kPatience));
    wire::TransferReply reply{};
    for (bool last = false; !last; last = reply.last != 0) {
      int files[wire::kMaxParts];
      unsigned count = 0;
      ASSERT_EQ(wire::ReceiveWith(connection.get(), &reply, sizeof reply, files, count, kPatience),
                static_cast<ssize_t>(sizeof reply));
      ASSERT_EQ(reply.error, 0u);
      for (unsigned i = 0; i < count; ++i) host.emplace_back(files[i]);
    }
    const wire::TransferReply receipt{wire::kReplyMagic, 0, 1, 0};
    ASSERT_TRUE(wire::SendWith(connection.get(), &receipt, sizeof receipt, nullptr, 0, kPatience));
  }

  // Takes the memory that comes back.
  void TakeBack(const Fd& connection, unsigned char value) {
    std::vector<DeviceMemory> back;
    wire::TransferParts parts{};
    for (bool last = false; !last; last = parts.last != 0) {
      int files[wire::kMaxParts];
      unsigned count = 0;
      ASSERT_EQ(wire::ReceiveWith(connection.get(), &parts, sizeof parts, files, count, kPatience),
                static_cast<ssize_t>(sizeof parts))
          << "the mover gave up";
      for (unsigned i = 0; i < count; ++i) {
        const Fd file(files[i]);
        auto memory = gpus->Import(file.get(), parts.part[i].bytes);
        ASSERT_TRUE(memory);
        back.push_back(std::move(*memory));
      }
    }
    const wire::TransferReply receipt{wire::kReplyMagic, 0, 1, 0};
    ASSERT_TRUE(wire::SendWith(connection.get(), &receipt, sizeof receipt, nullptr, 0, kPatience));
    ASSERT_EQ(back.size(), 1u);
    std::vector<unsigned char> bytes(kBytes);
    ASSERT_EQ(cuda->calls().cuMemcpyDtoH_v2(bytes.data(), back[0].address(), kBytes), abi::CUDA_SUCCESS);
    EXPECT_EQ(bytes, std::vector<unsigned char>(kBytes, value));
    host.clear();
  }

  const base::ProcessId self = base::SelfId();
  std::vector<Fd> host;
};

// If the daemon lived, the memory would have stayed on its GPU, for the other GPU to read.
TEST_F(MoverEndTest, MemoryTakenAsTheDaemonEndsIsWholeInHostMemory) {
  const Noise noise;
  for (unsigned char round = 1; round <= 10 && !HasFatalFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << int{round});
    Connection out, back;
    {
      base::SpawnedChild mover = Start();
      Ask(mover, {.id = 1, .verb = Verb::kTake, .process = self, .gpu = gpus->UuidOf(1).value()}, out.theirs);
      out.theirs.Close();
    }
    ASSERT_NO_FATAL_FAILURE(HandOut(out.ours, round));
    const base::SpawnedChild next = Start();
    Ask(next, {.id = 1, .verb = Verb::kGive, .process = self}, back.theirs);
    back.theirs.Close();
    ASSERT_NO_FATAL_FAILURE(TakeBack(back.ours, round));
    MoverAnswer answer;
    do {
      const auto packet = ReceivePacket(next.socket.get());
      ASSERT_TRUE(packet);
      answer = suspend::ParseAnswer(packet->text).value();
    } while (answer.outcome == MoverOutcome::kMoving);
    EXPECT_EQ(answer.outcome, MoverOutcome::kDone) << answer.message;
  }
}

}  // namespace
}  // namespace gpuman::mover
