#include "shim/vault.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ledger/wire/orders.h"
#include "ledger/wire/transfer.h"
#include "shim/guest.h"
#include "shim/own_descriptors.h"
#include "shim/own_socket.h"
#include "shim/threads.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;

enum : std::uint32_t { kKeep = 1, kLend, kDiscard, kListen, kAccept };

constexpr int kSocket = 0;  // in the vault's table
constexpr int kWaitMs = 10'000;
constexpr int kConnectMs = 1'000;  // to the vault itself
constexpr int kBacklog = 8;
constexpr int kLowestEnd = 600;  // as join.cc

// What a process leaves to a child of its fork, which does not know of it.
KeptFile left_end{-1, 0, 0};

int Receive() {
  char byte = 0;
  int descriptors[wire::kMostParts];
  unsigned count = 0;
  if (wire::ReceiveWith(kSocket, &byte, 1, descriptors, count, kWaitMs) != 1 || count == 0) return -1;
  return descriptors[0];
}

// While it lives the process may have as many descriptors as its hard limit lets it: a limit is the
// process's, but its table is not this one. Only where the soft one would not do; not where it was changed
// meanwhile.
class Widened {
 public:
  explicit Widened(rlim_t held) {
    constexpr rlim_t kBeside = 16;  // the socket, and what a signal's or a library's business may be
    if (::getrlimit(RLIMIT_NOFILE, &before_) != 0 || held + kBeside < before_.rlim_cur ||
        before_.rlim_cur == before_.rlim_max)
      return;
    const rlimit wider{before_.rlim_max, before_.rlim_max};
    widened_ = ::setrlimit(RLIMIT_NOFILE, &wider) == 0;
  }
  ~Widened() {
    rlimit now{};
    if (widened_ && ::getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == before_.rlim_max &&
        now.rlim_max == before_.rlim_max)
      ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  Widened(const Widened&) = delete;
  Widened& operator=(const Widened&) = delete;

 private:
  rlimit before_{};
  bool widened_ = false;
};

int ReceiveBeside(rlim_t held) {
  const Widened widened(held);
  return Receive();
}

int ListenBeside(rlim_t held, std::uint8_t (&name)[16]) {
  const Widened widened(held);
  return ListenUnderNewName(name, kBacklog, SOCK_NONBLOCK);
}

// The connection of this process that waits there becomes the vault's socket. -1: none does.
int AcceptBeside(rlim_t held, int listening) {
  const Widened widened(held);
  int taken = -1;
  for (int connection = 0; connection >= 0 && taken < 0;) {
    connection = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0 && PeerOf(connection).pid == ::getpid()) taken = ::dup2(connection, kSocket);
    if (connection >= 0) ::close(connection);
  }
  ::close(listening);
  return taken;
}

void* Guard(void* word) {
  Vault& vault = *static_cast<Vault*>(word);
  const int socket = vault.number;
  const bool own = OwnDescriptors(socket) && ::dup2(socket, kSocket) == kSocket;
  if (own) CloseAbove(kSocket);
  vault.number = own ? 0 : -1;
  rlim_t held = 0;
  for (;;) {
    wire::Store(vault.done, wire::Load(vault.asked));
    wire::WakeAll(vault.done);
    if (!own) return nullptr;
    while (wire::Load(vault.asked) == wire::Load(vault.done))
      wire::WaitOn(vault.asked, wire::Load(vault.done), -1);
    const char byte = 0;
    const int number = vault.number;
    switch (vault.verb) {
      case kKeep:
        vault.number = ReceiveBeside(held);
        if (vault.number >= 0) ++held;
        break;
      case kLend:
        if (!wire::SendWith(kSocket, &byte, 1, &number, 1, kWaitMs)) vault.number = -1;
        break;
      case kDiscard:
        if (::close(number) == 0) --held;
        break;
      case kListen:
        vault.number = ListenBeside(held, vault.name);
        break;
      case kAccept:
        vault.number = AcceptBeside(held, number);
        break;
      default:
        break;
    }
  }
}

// Its answer.
int Ask(Vault& vault, std::uint32_t verb, int number) {
  vault.verb = verb;
  vault.number = number;
  wire::Store(vault.asked, vault.asked + 1);
  wire::WakeAll(vault.asked);
  while (wire::Load(vault.done) != wire::Load(vault.asked))
    wire::WaitOn(vault.done, wire::Load(vault.asked) - 1, -1);
  return vault.number;
}

void KnowEnd(Vault& vault, int end) {
  const int high = ::fcntl(end, F_DUPFD_CLOEXEC, kLowestEnd);
  if (high >= 0) ::close(end);
  vault.end = Keep(high >= 0 ? high : end);
}

// The program has closed the socket to the vault, as one that it did not open. All else is there.
bool Reconnect(Vault& vault) {
  const int listening = Ask(vault, kListen, 0);
  if (listening < 0) return false;
  const int end = ConnectTo(vault.name, kConnectMs);
  const bool taken = Ask(vault, kAccept, listening) == kSocket;
  if (end < 0) return false;
  KnowEnd(vault, end);
  if (!taken) ::close(vault.end.descriptor);
  left_end = vault.end;
  return taken;
}

bool Open(Vault& vault) {
  if (vault.started) return IsStill(vault.end) || Reconnect(vault);
  if (wire::Load(vault.broken) != 0) return false;
  if (IsStill(left_end)) ::close(left_end.descriptor);
  left_end.descriptor = -1;
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
  KnowEnd(vault, pair[0]);
  vault.number = pair[1];
  wire::Store(vault.asked, 1);
  bool ready = StartThread(Guard, &vault);
  if (ready) {
    while (wire::Load(vault.done) == 0) wire::WaitOn(vault.done, 0, -1);
    ready = vault.number == 0;
  }
  ::close(pair[1]);
  if (!ready) {
    ::close(vault.end.descriptor);
    wire::Store(vault.asked, 0);
    wire::Store(vault.done, 0);
    wire::Store(vault.broken, 1);
    return false;
  }
  vault.started = true;
  left_end = vault.end;
  return true;
}

}  // namespace

void OpenVault(Guest& guest) {
  const NoCancellation whole;
  const Locked lock(guest.vault.mutex);
  Open(guest.vault);
}

int Deposit(Guest& guest, int descriptor) {
  if (descriptor < 0) return -1;
  Vault& vault = guest.vault;
  int number = -1;
  {
    const Locked lock(vault.mutex);
    const char byte = 0;
    if (Open(vault) && wire::SendWith(vault.end.descriptor, &byte, 1, &descriptor, 1, kWaitMs))
      number = Ask(vault, kKeep, 0);
  }
  ::close(descriptor);
  return number;
}

int Lend(Guest& guest, int number) {
  Vault& vault = guest.vault;
  const NoCancellation whole;
  const Locked lock(vault.mutex);
  if (number < 0 || !Open(vault) || Ask(vault, kLend, number) < 0) return -1;
  char byte = 0;
  int descriptors[wire::kMostParts];
  unsigned count = 0;
  // The program may have closed it, and opened a socket of its own, meanwhile.
  const bool got = IsStill(vault.end) &&
                   wire::ReceiveWith(vault.end.descriptor, &byte, 1, descriptors, count, kWaitMs) == 1 &&
                   count == 1;
  return got ? descriptors[0] : -1;
}

void Discard(Guest& guest, int number) {
  Vault& vault = guest.vault;
  const Locked lock(vault.mutex);
  if (number > kSocket && vault.started) Ask(vault, kDiscard, number);
}

}  // namespace gpuman::shim
