#include "ledger/server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/paths.h"
#include "ledger/wire/messages.h"
#include "ledger/wire/transfer.h"

namespace gpuman::ledger {
namespace {

using base::Fd;
using base::GuestSocket;
using base::Result;

constexpr std::size_t kMostWaiting = 4096;
constexpr std::size_t kMostOfUser = 2048;     // who says nothing is in nobody else's way; root may have all
constexpr std::chrono::seconds kPatience{5};  // with a process that connects and says nothing
constexpr std::chrono::seconds kEarlyPatience{15};  // longer than a shim's own
constexpr long kPause = 50'000'000;                 // nanoseconds, where there is no descriptor for who comes

int Watch(int poll, int how, int descriptor, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  return ::epoll_ctl(poll, how, descriptor, &event);
}

std::optional<uid_t> UserOf(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

std::optional<Caller> CallerOf(int connection, const wire::Hello& hello) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  const auto process = base::IdentityOf(peer.pid);
  if (!process) return std::nullopt;
  Caller caller{*process, peer.uid, std::nullopt, {}};
  if (hello.job != 0) caller.claimed_job = base::JobId{static_cast<std::int64_t>(hello.job)};
  caller.key.assign(hello.key, ::strnlen(hello.key, sizeof hello.key));
  return caller;
}

// One message with the descriptors of a seat, or none.
void Send(int connection, const wire::Welcome& welcome, const Seat* seat) {
  wire::Welcome copy = welcome;
  iovec part{&copy, sizeof copy};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  std::array<int, 2> descriptors{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
  if (seat != nullptr) {
    descriptors = {seat->owner.get(), seat->file.get()};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptors);
    std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  }
  (void)::sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Result<Server> Server::Make(Fd listening, Ledgers& ledgers, Attribute attribute, OtherVersion other_version) {
  Fd poll(::epoll_create1(EPOLL_CLOEXEC));
  if (!poll.ok()) return base::FailSystem(errno, "making an epoll descriptor");
  Fd pause(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!pause.ok()) return base::FailSystem(errno, "making a timer");
  for (const int fd : {listening.get(), pause.get()})
    if (Watch(poll.get(), EPOLL_CTL_ADD, fd, EPOLLIN) != 0)
      return base::FailSystem(errno, "watching the shims' socket");
  return Server(std::move(listening), std::move(poll), std::move(pause), ledgers, std::move(attribute),
                std::move(other_version));
}

void Server::Serve() {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const int descriptor = events[static_cast<std::size_t>(i)].data.fd;
    if (descriptor == listening_.get())
      Accept();
    else if (descriptor == pause_.get())
      GoOn();
    else
      Hear(descriptor);
  }
}

void Server::Accept() {
  DropOld();
  Fd accepted(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!accepted.ok()) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) Pause(errno);
    return;
  }
  in_trouble_ = false;
  base::PrepareGuest(accepted.get());
  Admit(GuestSocket(std::move(accepted), closer_));
}

// Who waits to be accepted keeps the socket readable: it is not looked at for a moment, instead of all the
// time.
void Server::Pause(int reason) {
  itimerspec moment{};
  moment.it_value.tv_nsec = kPause;
  if (::timerfd_settime(pause_.get(), 0, &moment, nullptr) != 0) return;
  paused_ = Watch(poll_.get(), EPOLL_CTL_MOD, listening_.get(), 0) == 0;
  if (!std::exchange(in_trouble_, true) && trouble_)
    trouble_(base::SystemError(reason, "accepting a process on the shims' socket"));
}

void Server::GoOn() {
  std::uint64_t times = 0;
  (void)!::read(pause_.get(), &times, sizeof times);
  DropOld();
  if (std::exchange(paused_, false)) Watch(poll_.get(), EPOLL_CTL_MOD, listening_.get(), EPOLLIN);
}

void Server::Admit(GuestSocket connection) {
  const int descriptor = connection.get();
  if (waiting_.size() >= kMostWaiting) return connection.HangUp();
  const auto user = UserOf(descriptor);
  if (!user) return connection.HangUp();
  if (*user != 0 && waiting_.size() + early_.size() >= kMostOfUser) {
    const auto waiting = std::count_if(waiting_.begin(), waiting_.end(),
                                       [&](const auto& entry) { return UserOf(entry.first) == user; });
    const auto early = std::count_if(early_.begin(), early_.end(), [&](const Early& entry) {
      return UserOf(entry.waiting.connection.get()) == user;
    });
    if (static_cast<std::size_t>(waiting + early) >= kMostOfUser) return connection.HangUp();
  }
  if (Watch(poll_.get(), EPOLL_CTL_ADD, descriptor, EPOLLIN) == 0)
    waiting_.emplace(descriptor, Waiting{std::move(connection), Clock::now()});
}

void Server::DropOld() {
  const auto now = Clock::now();
  std::erase_if(waiting_, [&](const auto& entry) {
    const bool old = now - entry.second.since > kPatience;
    if (old) ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, entry.first, nullptr);
    return old;
  });
  std::erase_if(early_, [&](const auto& entry) { return now - entry.waiting.since > kEarlyPatience; });
}

void Server::Hear(int connection) {
  const auto found = waiting_.find(connection);
  if (found == waiting_.end()) return;
  Waiting peer = std::move(found->second);
  waiting_.erase(found);
  // The closer may have it for a moment longer.
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, connection, nullptr);
  wire::Hello hello{};
  if (base::ReceiveData(connection, &hello, sizeof hello) != static_cast<ssize_t>(sizeof hello))
    return peer.connection.HangUp();
  if (hello.magic == wire::kOutMagic || hello.magic == wire::kBackMagic || hello.magic == wire::kBellMagic)
    return PassOn(std::move(peer.connection), hello);
  if (hello.magic != wire::kHelloMagic) return peer.connection.HangUp();
  if (Answer(connection, hello) || early_.size() >= kMostWaiting) return peer.connection.HangUp();
  early_.push_back({std::move(peer), hello});
}

// A process that counts in the ledger of the job that it is found to be of.
void Server::PassOn(GuestSocket connection, const wire::Hello& hello) {
  const auto caller = CallerOf(connection.get(), hello);
  if (!caller || hello.version != wire::kVersion) return;
  const auto found = attribute_(*caller);
  if (found.verdict != Verdict::kJob || !ledgers_->Registered(found.job, caller->process)) return;
  if (hello.magic == wire::kBellMagic) {
    if (bell_) bell_(found.job, caller->process);
    connection.HangUp();
  } else if (transfer_) {
    transfer_(found.job, caller->process, hello.magic == wire::kOutMagic, std::move(connection));
  }
}

void Server::AskAgain() {
  DropOld();
  std::erase_if(early_, [&](Early& early) {
    if (!Answer(early.waiting.connection.get(), early.hello)) return false;
    early.waiting.connection.HangUp();
    return true;
  });
}

bool Server::Answer(int connection, const wire::Hello& hello) {
  wire::Welcome welcome{};
  welcome.magic = wire::kWelcomeMagic;
  welcome.version = wire::kVersion;
  welcome.bytes = sizeof(wire::Ledger);
  welcome.answer = wire::Answer::kNoJob;
  const auto caller = CallerOf(connection, hello);
  const auto found = caller ? attribute_(*caller) : Attribution{};
  if (found.verdict == Verdict::kLater) return false;
  if (found.verdict == Verdict::kNobody || !ledgers_->Has(found.job)) {
    Send(connection, welcome, nullptr);
    return true;
  }
  welcome.answer = wire::Answer::kOtherVersion;
  if (hello.version != wire::kVersion) {
    Send(connection, welcome, nullptr);
    if (other_version_) other_version_(found.job, *caller, hello.version);
    return true;
  }
  const auto seat = ledgers_->Join(found.job, caller->process);
  welcome.answer = seat ? wire::Answer::kJoined : wire::Answer::kTryLater;
  if (seat) welcome.slot = seat->slot;
  Send(connection, welcome, seat ? &*seat : nullptr);
  return true;
}

Result<Fd> ListenForShims(const std::filesystem::path& path, mode_t mode) {
  GPUMAN_TRY(base::CheckSocketPath(path));
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return base::FailSystem(errno, "making a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) ::unlink(path.c_str());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return base::FailSystem(errno, "binding " + path.string());
  if (::chmod(path.c_str(), mode) != 0)
    return base::FailSystem(errno, "setting the permissions of " + path.string());
  if (::listen(fd.get(), SOMAXCONN) != 0) return base::FailSystem(errno, "listening on " + path.string());
  return fd;
}

}  // namespace gpuman::ledger
