#include "daemon/shims/test_fake_shim.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "ledger/wire/transfer.h"
#include "ledger/wire/words.h"

namespace gpuman::daemon {
namespace {

namespace wire = ledger::wire;

bool Connect(int connection, const sockaddr_un& address) {
  return ::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool Say(int connection, const wire::ShimHello& hello) {
  return ::send(connection, &hello, sizeof hello, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof hello);
}

wire::ShimHello HelloOf(base::JobId job, std::uint32_t magic) {
  wire::ShimHello hello{};
  hello.magic = magic;
  hello.version = wire::kVersion;
  hello.job = static_cast<std::uint64_t>(job.value);
  return hello;
}

// The process: the kernel says of both sockets that they are its own. It sends a notification for each byte
// that it is told, and says when it has.
[[noreturn]] void Live(int joining, int commands, const sockaddr_un& address,
                       const wire::ShimHello& notification) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  char byte = Connect(joining, address) ? 'y' : 'n';
  while (::send(commands, &byte, 1, MSG_NOSIGNAL) == 1 && ::recv(commands, &byte, 1, 0) == 1) {
    const int connection = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    byte = Connect(connection, address) && Say(connection, notification) ? 'y' : 'n';
    ::close(connection);
  }
  ::_exit(0);
}

// False: there is no answer yet.
bool Receive(int connection, wire::Welcome& welcome, std::array<base::Fd, 2>& descriptors) {
  iovec part{&welcome, sizeof welcome};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) return errno != EAGAIN;
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr) {
    std::array<int, 2> numbers{-1, -1};
    std::memcpy(numbers.data(), CMSG_DATA(header), sizeof numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i) descriptors[i] = base::Fd(numbers[i]);
  }
  return true;
}

}  // namespace

FakeShim::FakeShim(const std::filesystem::path& socket, base::JobId job, const std::function<void()>& serve) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket.native().copy(address.sun_path, sizeof address.sun_path - 1);
  const auto notification = HelloOf(job, wire::kNotifyMagic);
  const base::Fd connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  commands_ = base::Fd(ends[0]);
  const base::Fd its_end(ends[1]);
  pid_ = ::fork();
  if (pid_ == 0) Live(connection.get(), its_end.get(), address, notification);
  char connected = 'n';
  if (pid_ < 0 || ::recv(commands_.get(), &connected, 1, 0) != 1 || connected != 'y') return;
  process_ = base::IdentityOf(pid_).value_or(base::ProcessId{});
  if (!Say(connection.get(), HelloOf(job, wire::kHelloMagic))) return;
  wire::Welcome welcome{};
  std::array<base::Fd, 2> descriptors;
  while (!Receive(connection.get(), welcome, descriptors)) serve();
  if (welcome.answer == wire::JoinAnswer::kJoined) Join(welcome, descriptors[0]);
}

// The mapping alone keeps the slot, and no process that is forked later may have it.
void FakeShim::Join(const wire::Welcome& welcome, const base::Fd& owner) {
  void* const at = ::mmap(nullptr, sizeof(wire::Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, owner.get(), 0);
  if (at == MAP_FAILED || ::madvise(at, sizeof(wire::Ledger), MADV_DONTFORK) != 0) return;
  ledger_ = static_cast<wire::Ledger*>(at);
  slot_ = welcome.slot;
}

FakeShim::~FakeShim() { End(); }

void FakeShim::End() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
  if (ledger_ != nullptr) ::munmap(ledger_, sizeof(wire::Ledger));
  ledger_ = nullptr;
}

void FakeShim::Stop() const {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);
}

void FakeShim::Notify() const {
  char byte = 0;
  (void)::send(commands_.get(), &byte, 1, MSG_NOSIGNAL);
  (void)::recv(commands_.get(), &byte, 1, 0);
}

wire::OrderKind FakeShim::ordered() const { return wire::OrderKindOf(wire::Load(slot().order)); }
bool FakeShim::HasOrder() const { return wire::Load(slot().order) != wire::Load(slot().answered); }
std::uint64_t FakeShim::patience() const { return wire::Load(slot().order_bytes); }

std::optional<wire::CallGrant> FakeShim::grant() const {
  const std::uint32_t word = wire::Load(slot().call_grant);
  const auto grant = wire::CallGrantOf(word);
  const auto told = wire::CallGrantReportOf(wire::Load(slot().grant_report));
  const bool ended =
      told.number == wire::GrantNumberOf(word) && told.ended != wire::CallGrantEndReason::kNotYet;
  return grant.calls == 0 || ended ? std::nullopt : std::optional(grant);
}

void FakeShim::MakesContext(std::uint32_t flags) {
  wire::Store(slot().flags, flags);
  wire::Store(slot().residency, static_cast<std::uint32_t>(wire::MemoryResidency::kOnGpu));
}

void FakeShim::Tell(std::uint16_t works, std::uint16_t waits, std::uint32_t state) {
  wire::Store(slot().rest, wire::PackRest(works, waits));
  wire::Store(slot().rest_state, ++changes_ << 16 | state);
}

void FakeShim::Closes(std::uint16_t works, std::uint16_t waits, std::uint32_t state) {
  wire::Store(slot().residency, static_cast<std::uint32_t>(wire::MemoryResidency::kEvicting));
  Tell(works, waits, state | wire::kRestShut);
}

void FakeShim::Answer(wire::MemoryResidency residency, wire::OrderError error) const {
  wire::Store(slot().error, wire::PackError(error, 0));
  wire::Store(slot().residency, static_cast<std::uint32_t>(residency));
  wire::Store(slot().answered, wire::Load(slot().order));
}

void FakeShim::IsHeld(std::uint16_t waits) {
  Tell(0, waits, wire::kRestShut);
  Answer(wire::MemoryResidency::kHeld, wire::OrderError::kNone);
}

void FakeShim::Runs() { Opens(wire::OrderError::kNone); }
void FakeShim::Refuses(wire::OrderError why) { Opens(why); }

void FakeShim::Opens(wire::OrderError error) {
  Tell(0, 0, 0);
  Answer(wire::MemoryResidency::kOnGpu, error);
}

void FakeShim::EndsGrant(wire::CallGrantEndReason why, unsigned calls) {
  wire::Store(slot().grant_report,
              wire::PackCallGrantReport({wire::GrantNumberOf(wire::Load(slot().call_grant)), why, calls}));
}

}  // namespace gpuman::daemon
