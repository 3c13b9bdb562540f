#include "shim/link/join.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ledger/wire/messages.h"
#include "ledger/wire/transfer.h"
#include "shim/libc/kept_file.h"
#include "shim/libc/threads.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;

// Owns a descriptor. The classes of src/base are of no use here: the shim uses nothing but libc.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  void Set(int number) { number_ = number; }

 private:
  int number_;
};

bool Connect(int socket, const char* path, std::int64_t end) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) return false;
  std::strcpy(address.sun_path, path);
  // Where the daemon's queue is full, poll cannot wait for room in it.
  while (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if ((errno != EAGAIN && errno != EINTR) || wire::MonotonicMs() >= end) return false;
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return true;
}

// Any user may make the directory of the socket, so the shim believes only root's daemon and this user's own.
bool IsTrusted(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == 0 || peer.uid == ::geteuid());
}

// What the environment says. The thread of the program that asks first reads it. Another thread may change
// the environment at any later moment, so no thread reads it later.
struct {
  bool known;
  std::uint64_t job;
  char key[sizeof wire::ShimHello::key];
  // "": the variable is not set. A value that is cut off here is too long for a socket as well.
  char socket[sizeof sockaddr_un::sun_path + 1];
  char runtime[sizeof sockaddr_un::sun_path + 1];
} said;

template <std::size_t size>
void Read(const char* variable, char (&text)[size]) {
  if (const char* const value = std::getenv(variable)) std::strncpy(text, value, size - 1);
}

void ReadEnvironment() {
  if (said.known) return;
  if (const char* const job = std::getenv(wire::kJobVariable)) said.job = std::strtoull(job, nullptr, 10);
  Read(wire::kKeyVariable, said.key);
  Read(wire::kSocketVariable, said.socket);
  Read("XDG_RUNTIME_DIR", said.runtime);
  said.known = true;
}

wire::ShimHello MakeHello(std::uint32_t magic) {
  wire::ShimHello hello{};
  hello.magic = magic;
  hello.version = wire::kVersion;
  hello.job = said.job;
  std::memcpy(hello.key, said.key, sizeof hello.key);
  return hello;
}

bool Receive(int socket, wire::Welcome& welcome, Descriptor& owner, Descriptor& file) {
  int files[wire::kMaxParts];
  unsigned count = 0;
  const ssize_t got = wire::ReceiveWith(socket, &welcome, sizeof welcome, files, count, 0);
  owner.Set(count > 0 ? files[0] : -1);
  file.Set(count > 1 ? files[1] : -1);
  for (unsigned i = 2; i < count; ++i) ::close(files[i]);
  return got == static_cast<ssize_t>(sizeof welcome) && welcome.magic == wire::kWelcomeMagic;
}

bool Enter(const wire::Welcome& welcome, const Descriptor& owner, const Descriptor& file,
           JoinedLedger& joined) {
  if (welcome.version != wire::kVersion || welcome.slot >= wire::kSlots ||
      welcome.bytes != sizeof(wire::Ledger) || owner.get() < 0 ||
      ::lseek(owner.get(), 0, SEEK_END) != static_cast<off_t>(sizeof(wire::Ledger)))
    return false;
  void* const at = ::mmap(nullptr, sizeof(wire::Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, owner.get(), 0);
  if (at == MAP_FAILED) return false;
  // The mapping holds the lock on the slot; a forked child must not hold it too.
  if (::madvise(at, sizeof(wire::Ledger), MADV_DONTFORK) != 0) {
    ::munmap(at, sizeof(wire::Ledger));
    return false;
  }
  joined.ledger = static_cast<wire::Ledger*>(at);
  joined.slot = welcome.slot;
  joined.file = ::fcntl(file.get(), F_DUPFD_CLOEXEC, kLowestKept);
  if (joined.file < 0) joined.file = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 3);
  return true;
}

enum class Path { kFromEnvironment, kUsual };

// The socket of the daemon that has this process in a job.
struct {
  char path[sizeof sockaddr_un::sun_path];
  Path kind;
} joined_at;

void RememberDaemon(const char* path, Path kind) {
  if (std::strlen(path) >= sizeof joined_at.path) return;
  std::strcpy(joined_at.path, path);
  joined_at.kind = kind;
}

// When the waits end, in the time of MonotonicMs.
struct Ends {
  std::int64_t connect;
  std::int64_t answer;
};

JoinOutcome Ask(const char* path, Path kind, JoinedLedger& joined, const Ends& ends) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0 || !Connect(socket.get(), path, ends.connect)) return JoinOutcome::kNoDaemon;
  if (kind == Path::kUsual && !IsTrusted(socket.get())) return JoinOutcome::kNoDaemon;
  const wire::ShimHello hello = MakeHello(wire::kHelloMagic);
  if (::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof hello))
    return JoinOutcome::kNoDaemon;
  if (!wire::AwaitEvents(socket.get(), POLLIN, ends.answer)) return JoinOutcome::kNoDaemon;
  wire::Welcome welcome{};
  Descriptor owner, file;
  if (!Receive(socket.get(), welcome, owner, file)) return JoinOutcome::kNoDaemon;
  switch (welcome.answer) {
    case wire::JoinAnswer::kJoined:
      return Enter(welcome, owner, file, joined) ? JoinOutcome::kJoined : JoinOutcome::kNoDaemon;
    case wire::JoinAnswer::kNoJob:
    case wire::JoinAnswer::kOtherVersion:
      return JoinOutcome::kNoJob;
    case wire::JoinAnswer::kTryLater:
      break;
  }
  return JoinOutcome::kNoDaemon;
}

}  // namespace

int CallDaemon(std::uint32_t magic, int patience_ms) {
  const NoCancellation whole;
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0 || joined_at.path[0] == '\0' ||
      !Connect(socket.get(), joined_at.path, wire::MonotonicMs() + patience_ms) ||
      (joined_at.kind == Path::kUsual && !IsTrusted(socket.get())))
    return -1;
  const wire::ShimHello hello = MakeHello(magic);
  if (::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof hello))
    return -1;
  const int connection = socket.get();
  socket.Set(-1);
  return connection;
}

void NotifyDaemon() {
  constexpr int kAtOnce = 0;
  const NoCancellation whole;
  const int before = errno;
  const int connection = CallDaemon(wire::kNotifyMagic, kAtOnce);
  if (connection >= 0) ::close(connection);
  errno = before;
}

JoinOutcome AskForLedger(JoinedLedger& joined, Patience patience) {
  const NoCancellation whole;
  ReadEnvironment();
  const std::int64_t now = wire::MonotonicMs();
  const Ends ends{now + patience.connect_ms, now + patience.connect_ms + patience.answer_ms};
  bool answered = false, own_is_away = false;
  const auto joins = [&](const char* path, Path kind) {
    const JoinOutcome reply = Ask(path, kind, joined, ends);
    if (reply == JoinOutcome::kJoined) RememberDaemon(path, kind);
    answered = answered || reply == JoinOutcome::kNoJob;
    own_is_away = own_is_away || (kind == Path::kFromEnvironment && reply == JoinOutcome::kNoDaemon);
    return reply == JoinOutcome::kJoined;
  };
  char path[sizeof sockaddr_un::sun_path + 32];
  const auto user = static_cast<unsigned>(::geteuid());
  if (said.socket[0] != '\0' && joins(said.socket, Path::kFromEnvironment)) return JoinOutcome::kJoined;
  if (joins("/run/gpuman/shim.sock", Path::kUsual)) return JoinOutcome::kJoined;
  if (said.runtime[0] == '/') {
    std::snprintf(path, sizeof path, "%s/gpuman/%s", said.runtime, wire::kSocketName);
    if (joins(path, Path::kUsual)) return JoinOutcome::kJoined;
  }
  std::snprintf(path, sizeof path, "/run/user/%u/gpuman/%s", user, wire::kSocketName);
  if (joins(path, Path::kUsual)) return JoinOutcome::kJoined;
  std::snprintf(path, sizeof path, "/tmp/gpuman-%u/%s", user, wire::kSocketName);
  if (joins(path, Path::kUsual)) return JoinOutcome::kJoined;
  return answered && !own_is_away ? JoinOutcome::kNoJob : JoinOutcome::kNoDaemon;
}

}  // namespace gpuman::shim
