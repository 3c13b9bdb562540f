#include "shim/backing/ipc_server.h"

#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ledger/wire/orders.h"
#include "ledger/wire/transfer.h"
#include "shim/backing/backing_state.h"
#include "shim/libc/hash_table.h"
#include "shim/libc/lock.h"
#include "shim/libc/own_descriptors.h"
#include "shim/libc/own_socket.h"
#include "shim/libc/threads.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;

enum : std::uint32_t { kNotStarted, kStarting, kServes, kBroken };
enum : std::uint32_t { kOffer = 1, kWithdraw, kFetch };

constexpr std::uint32_t kMagic = 0x494d5047;  // "GPMI"
constexpr int kPatienceMs = 10'000;
constexpr int kPatienceWithClientsMs = 1'000;  // short: the process waits for its server when it frees
constexpr int kBacklog = 256;
constexpr unsigned kMaxPieces = 1u << 16;

// A message, in either direction. Descriptors come with it.
struct Message {
  std::uint32_t magic;
  std::uint32_t verb;  // of an answer: 1 yes, 0 no
  std::uint64_t number;
  std::uint32_t count;
  std::uint32_t last;
};
static_assert(sizeof(Message) == 24);

void Pause() {
  const timespec time{0, 1'000'000};
  ::nanosleep(&time, nullptr);
}

// The exports that the server's thread holds.
class Holdings {
 public:
  // Takes over the descriptors. Returns false where there is no room for them; then the export is dropped.
  bool Add(std::uint64_t number, const int* descriptors, unsigned count) {
    Export* const entry = exports_.Insert(number);
    bool held = entry != nullptr;
    for (unsigned i = 0; i < count; ++i) {
      int* const place =
          held && entry->count < kMaxPieces ? pieces_.Insert(Key(number, entry->count)) : nullptr;
      held = place != nullptr;
      if (held) {
        *place = descriptors[i];
        ++entry->count;
      } else {
        ::close(descriptors[i]);
      }
    }
    if (!held) Drop(number);
    return held;
  }
  void Complete(std::uint64_t number) {
    if (Export* const entry = exports_.Find(number)) entry->complete = true;
  }
  void Drop(std::uint64_t number) {
    Export gone{};
    if (!exports_.Take(number, gone)) return;
    for (unsigned i = 0; i < gone.count; ++i) {
      int descriptor = -1;
      if (pieces_.Take(Key(number, i), descriptor)) ::close(descriptor);
    }
  }
  // Returns how many descriptors the export has; 0: there is no such export.
  unsigned CountOf(std::uint64_t number) {
    const Export* const entry = exports_.Find(number);
    return entry != nullptr && entry->complete ? entry->count : 0;
  }
  int At(std::uint64_t number, unsigned piece) { return *pieces_.Find(Key(number, piece)); }

 private:
  struct Export {
    unsigned count;
    bool complete;
  };
  static std::uint64_t Key(std::uint64_t number, unsigned piece) { return number * kMaxPieces + piece; }

  HashTable<Export> exports_;
  HashTable<int> pieces_;
};

void Answer(int connection, bool yes) {
  const Message message{kMagic, yes ? 1u : 0u, 0, 0, 1};
  (void)wire::SendWith(connection, &message, sizeof message, nullptr, 0, kPatienceWithClientsMs);
}

void HandOut(Holdings& holdings, int connection, std::uint64_t number) {
  const unsigned count = holdings.CountOf(number);
  if (count == 0) return Answer(connection, /*yes=*/false);
  int descriptors[wire::kMaxParts];
  for (unsigned sent = 0; sent < count;) {
    const unsigned some = count - sent < wire::kMaxParts ? count - sent : wire::kMaxParts;
    for (unsigned i = 0; i < some; ++i) descriptors[i] = holdings.At(number, sent + i);
    sent += some;
    const Message message{kMagic, 1, number, some, sent == count ? 1u : 0u};
    if (!wire::SendWith(connection, &message, sizeof message, descriptors, some, kPatienceWithClientsMs))
      return;
  }
}

// Answers all messages of one connection.
void Hear(Holdings& holdings, int connection) {
  const ucred peer = PeerOf(connection);
  const bool own = peer.pid == ::getpid();
  if (!own && peer.uid != ::geteuid()) return;
  for (;;) {
    Message message{};
    int descriptors[wire::kMaxParts];
    unsigned count = 0;
    const ssize_t got = wire::ReceiveWith(connection, &message, sizeof message, descriptors, count,
                                          own ? kPatienceMs : kPatienceWithClientsMs);
    const bool good = got == sizeof message && message.magic == kMagic && message.number != 0;
    if (good && own && message.verb == kOffer) {
      const bool held = holdings.Add(message.number, descriptors, count) && count == message.count;
      if (held && message.last != 0) holdings.Complete(message.number);
      if (!held) holdings.Drop(message.number);
      Answer(connection, held);
      continue;
    }
    for (unsigned i = 0; i < count; ++i) ::close(descriptors[i]);
    if (!good) return;
    if (own && message.verb == kWithdraw) {
      holdings.Drop(message.number);
      Answer(connection, /*yes=*/true);
    } else if (message.verb == kFetch) {
      HandOut(holdings, connection, message.number);
    }
    return;
  }
}

void* Serve(void* word) {
  IpcServer& server = *static_cast<IpcServer*>(word);
  const bool own = OwnDescriptors(-1);
  if (own) CloseAbove(-1);
  const int listening = own ? ListenUnderNewName(server.name, kBacklog, 0) : -1;
  wire::Store(server.state, listening >= 0 ? kServes : kBroken);
  wire::WakeAll(server.state);
  if (listening < 0) return nullptr;
  Holdings holdings;
  for (;;) {
    const int connection = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) {
      Pause();  // no descriptor is free for the connection
      continue;
    }
    Hear(holdings, connection);
    ::close(connection);
  }
}

}  // namespace

bool StartIpcServer(BackingState& state) {
  IpcServer& server = state.ipc_server;
  const NoCancellation whole;
  const Locked lock(server.mutex);
  if (wire::Load(server.state) == kNotStarted) {
    wire::Store(server.state, kStarting);
    if (!StartThread(Serve, &server)) wire::Store(server.state, kNotStarted);
    while (wire::Load(server.state) == kStarting) wire::WaitOn(server.state, kStarting, -1);
  }
  return wire::Load(server.state) == kServes;
}

IpcConnection::IpcConnection(const std::uint8_t (&name)[16]) : socket_(ConnectTo(name, kPatienceMs)) {
  if (socket_ < 0) return;
  // This process's own server is believed in any case: the process may have become another user since.
  const ucred peer = PeerOf(socket_);
  if (peer.uid == ::geteuid() || peer.pid == ::getpid()) return;
  ::close(socket_);
  socket_ = -1;
}

IpcConnection::~IpcConnection() {
  if (socket_ < 0) return;
  ::shutdown(socket_, SHUT_RDWR);  // a child of a fork may have the descriptor
  ::close(socket_);
}

bool IpcConnection::Say(std::uint32_t verb, std::uint64_t number, const int* descriptors, unsigned count,
                        bool last) {
  const Message message{kMagic, verb, number, count, last ? 1u : 0u};
  return socket_ >= 0 && wire::SendWith(socket_, &message, sizeof message, descriptors, count, kPatienceMs);
}

bool IpcConnection::Done() {
  Message message{};
  int descriptors[wire::kMaxParts];
  unsigned count = 0;
  const ssize_t got = wire::ReceiveWith(socket_, &message, sizeof message, descriptors, count, kPatienceMs);
  for (unsigned i = 0; i < count; ++i) ::close(descriptors[i]);
  return got == sizeof message && message.magic == kMagic && message.verb == 1;
}

bool IpcConnection::Offer(std::uint64_t number, const int* descriptors, unsigned count, bool last) {
  return Say(kOffer, number, descriptors, count, last) && Done();
}

bool IpcConnection::Withdraw(std::uint64_t number) {
  return Say(kWithdraw, number, nullptr, 0, /*last=*/true) && Done();
}

bool IpcConnection::Ask(std::uint64_t number) {
  const bool said = Say(kFetch, number, nullptr, 0, /*last=*/true);
  hung_up_ = !said && socket_ >= 0;
  return said;
}

bool IpcConnection::Next(int* descriptors, unsigned& count, bool& last) {
  Message message{};
  count = 0;
  const ssize_t got = wire::ReceiveWith(socket_, &message, sizeof message, descriptors, count, kPatienceMs);
  last = message.last != 0;
  hung_up_ = got <= 0;
  if (got == sizeof message && message.magic == kMagic && message.verb == 1 && message.count == count)
    return true;
  for (unsigned i = 0; i < count; ++i) ::close(descriptors[i]);
  count = 0;
  return false;
}

}  // namespace gpuman::shim
