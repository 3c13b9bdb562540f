#include "shim/libc/descriptor_store.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ledger/wire/orders.h"
#include "ledger/wire/transfer.h"
#include "shim/libc/lock.h"
#include "shim/libc/own_descriptors.h"
#include "shim/libc/own_socket.h"
#include "shim/libc/threads.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;

enum : std::uint32_t { kKeep = 1, kDuplicate, kClose, kListen, kAccept };

constexpr int kSocket = 0;  // its number in the descriptor store's table
constexpr int kWaitMs = 10'000;
constexpr int kConnectMs = 1'000;  // to the descriptor store itself
constexpr int kBacklog = 8;

// A child of a fork inherits its parent's `end`, but the state that names it is wiped. The child finds it
// here and closes it.
KeptFile left_end{-1, 0, 0};

int Receive() {
  char byte = 0;
  int descriptors[wire::kMaxParts];
  unsigned count = 0;
  if (wire::ReceiveWith(kSocket, &byte, 1, descriptors, count, kWaitMs) != 1 || count == 0) return -1;
  return descriptors[0];
}

// Lets the process have as many descriptors as its hard limit allows, while an object lives. The kernel
// applies the process's limit to the descriptor store's table too, although the program's descriptors are not
// in it. The soft limit is raised only where it has no room beside `held` descriptors. Where the program has
// changed the limit meanwhile, that change stays.
class Widened {
 public:
  explicit Widened(rlim_t held) {
    constexpr rlim_t kBeside = 16;  // the socket, and what the system or a library may need
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

// Accepts the connection of this process that waits at the socket. It becomes the descriptor store's socket.
// Returns -1 where there is none.
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
  DescriptorStore& descriptor_store = *static_cast<DescriptorStore*>(word);
  const int socket = descriptor_store.number;
  const bool own = OwnDescriptors(socket) && ::dup2(socket, kSocket) == kSocket;
  if (own) CloseAbove(kSocket);
  descriptor_store.number = own ? 0 : -1;
  rlim_t held = 0;
  for (;;) {
    wire::Store(descriptor_store.done, wire::Load(descriptor_store.asked));
    wire::WakeAll(descriptor_store.done);
    if (!own) return nullptr;
    while (wire::Load(descriptor_store.asked) == wire::Load(descriptor_store.done))
      wire::WaitOn(descriptor_store.asked, wire::Load(descriptor_store.done), -1);
    const char byte = 0;
    const int number = descriptor_store.number;
    switch (descriptor_store.verb) {
      case kKeep:
        descriptor_store.number = ReceiveBeside(held);
        if (descriptor_store.number >= 0) ++held;
        break;
      case kDuplicate:
        if (!wire::SendWith(kSocket, &byte, 1, &number, 1, kWaitMs)) descriptor_store.number = -1;
        break;
      case kClose:
        if (::close(number) == 0) --held;
        break;
      case kListen:
        descriptor_store.number = ListenBeside(held, descriptor_store.name);
        break;
      case kAccept:
        descriptor_store.number = AcceptBeside(held, number);
        break;
      default:
        break;
    }
  }
}

// Gives the thread a task and returns its answer.
int Ask(DescriptorStore& descriptor_store, std::uint32_t verb, int number) {
  descriptor_store.verb = verb;
  descriptor_store.number = number;
  wire::Store(descriptor_store.asked, descriptor_store.asked + 1);
  wire::WakeAll(descriptor_store.asked);
  while (wire::Load(descriptor_store.done) != wire::Load(descriptor_store.asked))
    wire::WaitOn(descriptor_store.done, wire::Load(descriptor_store.asked) - 1, -1);
  return descriptor_store.number;
}

void KnowEnd(DescriptorStore& descriptor_store, int end) {
  const int high = ::fcntl(end, F_DUPFD_CLOEXEC, kLowestKept);
  if (high >= 0) ::close(end);
  descriptor_store.end = Keep(high >= 0 ? high : end);
}

// The program has closed `end`, a descriptor that it did not open. The thread and its table are still there:
// the shim connects to the thread again.
bool Reconnect(DescriptorStore& descriptor_store) {
  const int listening = Ask(descriptor_store, kListen, 0);
  if (listening < 0) return false;
  const int end = ConnectTo(descriptor_store.name, kConnectMs);
  const bool taken = Ask(descriptor_store, kAccept, listening) == kSocket;
  if (end < 0) return false;
  KnowEnd(descriptor_store, end);
  if (!taken) ::close(descriptor_store.end.descriptor);
  left_end = descriptor_store.end;
  return taken;
}

bool Open(DescriptorStore& descriptor_store) {
  if (descriptor_store.started) return IsStill(descriptor_store.end) || Reconnect(descriptor_store);
  if (wire::Load(descriptor_store.broken) != 0) return false;
  if (IsStill(left_end)) ::close(left_end.descriptor);
  left_end.descriptor = -1;
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
  KnowEnd(descriptor_store, pair[0]);
  descriptor_store.number = pair[1];
  wire::Store(descriptor_store.asked, 1);
  bool ready = StartThread(Guard, &descriptor_store);
  if (ready) {
    while (wire::Load(descriptor_store.done) == 0) wire::WaitOn(descriptor_store.done, 0, -1);
    ready = descriptor_store.number == 0;
  }
  ::close(pair[1]);
  if (!ready) {
    ::close(descriptor_store.end.descriptor);
    wire::Store(descriptor_store.asked, 0);
    wire::Store(descriptor_store.done, 0);
    wire::Store(descriptor_store.broken, 1);
    return false;
  }
  descriptor_store.started = true;
  left_end = descriptor_store.end;
  return true;
}

}  // namespace

void OpenDescriptorStore(DescriptorStore& descriptor_store) {
  const NoCancellation whole;
  const Locked lock(descriptor_store.mutex);
  Open(descriptor_store);
}

int PutDescriptor(DescriptorStore& descriptor_store, int descriptor) {
  if (descriptor < 0) return -1;
  int number = -1;
  {
    const Locked lock(descriptor_store.mutex);
    const char byte = 0;
    if (Open(descriptor_store) &&
        wire::SendWith(descriptor_store.end.descriptor, &byte, 1, &descriptor, 1, kWaitMs))
      number = Ask(descriptor_store, kKeep, 0);
  }
  ::close(descriptor);
  return number;
}

int DuplicateDescriptor(DescriptorStore& descriptor_store, int number) {
  const NoCancellation whole;
  const Locked lock(descriptor_store.mutex);
  if (number < 0 || !Open(descriptor_store) || Ask(descriptor_store, kDuplicate, number) < 0) return -1;
  char byte = 0;
  int descriptors[wire::kMaxParts];
  unsigned count = 0;
  // Meanwhile the program may have closed `end`, and opened a socket of its own under the same number.
  const bool got =
      IsStill(descriptor_store.end) &&
      wire::ReceiveWith(descriptor_store.end.descriptor, &byte, 1, descriptors, count, kWaitMs) == 1 &&
      count == 1;
  return got ? descriptors[0] : -1;
}

void CloseDescriptor(DescriptorStore& descriptor_store, int number) {
  const Locked lock(descriptor_store.mutex);
  if (number > kSocket && descriptor_store.started) Ask(descriptor_store, kClose, number);
}

}  // namespace gpuman::shim
