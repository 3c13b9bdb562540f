#include "forged_mover.h"

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/test_slow_closing_socket.h"
#include "ledger/wire/transfer.h"
#include "suspend/request.h"

namespace gpuman::suspend {
namespace {

constexpr int kSocket = 0, kForEver = -1;

bool Say(const MoverAnswer& answer) {
  const std::string line = Serialize(answer);
  return ledger::wire::SendWith(kSocket, line.data(), line.size(), nullptr, 0, kForEver);
}

// The holder of the last descriptor waits until a process reads what the socket has sent: a child does that,
// which outlives the mover and ends when the file exists.
void PassLingering(const MoverAnswer& answer, const std::filesystem::path& until) {
  base::SlowClosingSocket socket;
  if (!socket.ok() || !socket.PassTo(kSocket, Serialize(answer))) return;
  if (::fork() != 0) return;
  ::close(kSocket);
  while (!std::filesystem::exists(until)) ::usleep(10'000);
  ::_exit(0);
}

void SendManyNotices(std::uint64_t id) {
  const base::Fd memory(::memfd_create("memory", MFD_CLOEXEC));
  int numbers[ledger::wire::kMaxParts];
  for (int& number : numbers) number = memory.get();
  const std::string line = Serialize(MoverAnswer{.id = id, .outcome = MoverOutcome::kHolding});
  for (int i = 0; i < 32; ++i)
    (void)ledger::wire::SendWith(kSocket, line.data(), line.size(), numbers, ledger::wire::kMaxParts,
                                 kForEver);
}

// Says that it has memory of so many GPUs.
void SendGpuNotices(std::uint64_t id, int gpus) {
  const base::Fd memory(::memfd_create("memory", MFD_CLOEXEC));
  const int number = memory.get();
  for (int i = 0; i < gpus; ++i) {
    const std::string line = Serialize(
        MoverAnswer{.id = id, .outcome = MoverOutcome::kHolding, .gpu = "GPU-" + std::to_string(i)});
    (void)ledger::wire::SendWith(kSocket, line.data(), line.size(), &number, 1, kForEver);
  }
}

}  // namespace

int RunForgedMover(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string_view how = argv[2];
  const std::filesystem::path file = argv[3];
  if (!Say({.outcome = MoverOutcome::kDone})) return 1;
  for (;;) {
    std::string text(kMaxLine, '\0');
    int numbers[ledger::wire::kMaxParts];
    unsigned count = 0;
    const auto got = ledger::wire::ReceiveWith(kSocket, text.data(), text.size(), numbers, count, kForEver);
    if (got <= 0) return 0;
    const auto request = ParseRequest(std::string_view(text).substr(0, static_cast<std::size_t>(got)));
    if (!request || request->verb == Verb::kPrepare) continue;
    const MoverAnswer answer{.id = request->id, .outcome = MoverOutcome::kHolding};
    if (how == "honest" &&
        !Say({.id = request->id, .outcome = MoverOutcome::kDone, .state = DriverState::kRunning}))
      return 1;
    if (how == "lingering") {
      PassLingering(answer, file);
      PassLingering(answer, file);
    } else if (how == "many_gpus") {
      SendGpuNotices(request->id, 1000);
    } else if (how == "holding") {
      SendManyNotices(request->id);
      (void)Say({.id = request->id, .outcome = MoverOutcome::kMoving, .bytes = base::Bytes{1}});
    }
  }
}

}  // namespace gpuman::suspend
