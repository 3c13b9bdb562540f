#include "ledger/server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/paths.h"
#include "base/peer.h"
#include "ledger/timer.h"

namespace gpuman::ledger {
namespace {

using base::Fd;
using base::Result;
using base::UntrustedSocket;

constexpr std::size_t kMaxOfUser = 2048;      // leaves room for other users' processes; no bound for root
constexpr std::chrono::seconds kPatience{5};  // for a process that connects and says nothing
constexpr std::chrono::seconds kEarlyPatience{15};  // longer than a shim's own
constexpr std::chrono::milliseconds kPause{50};     // while there is no descriptor for a new process

int Watch(int poll, int how, int descriptor, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  return ::epoll_ctl(poll, how, descriptor, &event);
}

}  // namespace

Result<Server> Server::Make(Fd listening, Ledgers& ledgers, Attribute attribute, OtherVersion other_version) {
  Fd poll(::epoll_create1(EPOLL_CLOEXEC));
  if (!poll.ok()) return base::FailSystem(errno, "making an epoll descriptor");
  Wakers wakers;
  GPUMAN_ASSIGN(wakers.pause, MakeTimer());
  GPUMAN_ASSIGN(wakers.patience, MakeTimer());
  GPUMAN_ASSIGN(wakers.retry, MakeTimer());
  wakers.turn = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakers.turn.ok()) return base::FailSystem(errno, "making an event descriptor");
  for (const int fd :
       {listening.get(), wakers.pause.get(), wakers.patience.get(), wakers.retry.get(), wakers.turn.get()})
    if (Watch(poll.get(), EPOLL_CTL_ADD, fd, EPOLLIN) != 0)
      return base::FailSystem(errno, "watching the shims' socket");
  return Server(std::move(listening), std::move(poll), std::move(wakers), ledgers, std::move(attribute),
                std::move(other_version));
}

// Processes that the server has not accepted wait in the listening socket, with descriptors that they have
// passed along; the closer closes them.
Server::~Server() {
  if (closer_) closer_->Close(std::move(listening_));
}

void Server::Serve() {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const int descriptor = events[static_cast<std::size_t>(i)].data.fd;
    if (descriptor == listening_.get())
      Accept();
    else if (descriptor == wakers_.pause.get())
      GoOn();
    else if (descriptor == wakers_.patience.get())
      DropOld();
    else if (descriptor == wakers_.retry.get())
      Retry();
    else if (descriptor != wakers_.turn.get())
      Queue(descriptor);
  }
  TakeTurn();
}

void Server::Accept() {
  Fd accepted(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!accepted.ok()) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) Pause(errno);
    return;
  }
  error_reported_ = false;
  base::PrepareUntrusted(accepted.get());
  Admit(UntrustedSocket(std::move(accepted), closer_));
}

// A process that waits to be accepted keeps the socket readable: the server does not watch it for a moment,
// so that it does not spin.
void Server::Pause(int reason) {
  if (!Start(wakers_.pause, kPause)) return;
  paused_ = Watch(poll_.get(), EPOLL_CTL_MOD, listening_.get(), 0) == 0;
  if (!std::exchange(error_reported_, true) && on_error_)
    on_error_(base::SystemError(reason, "accepting a process on the shims' socket"));
}

void Server::GoOn() {
  Take(wakers_.pause);
  DropOld();
  if (std::exchange(paused_, false)) Watch(poll_.get(), EPOLL_CTL_MOD, listening_.get(), EPOLLIN);
}

void Server::Admit(UntrustedSocket connection) {
  const int descriptor = connection.get();
  const auto peer = base::CredentialsOf(descriptor);
  if (!peer || !MakeRoomFor(peer->uid)) return connection.HangUp();
  if (Watch(poll_.get(), EPOLL_CTL_ADD, descriptor, EPOLLIN) != 0) return;
  const bool first = waiting_.empty() && early_.empty();
  silent_.emplace(descriptor, ++last_);
  waiting_.emplace(last_,
                   Waiting{std::move(connection), Clock::now(), base::TicksNow(), peer->uid, peer->pid});
  if (first) WaitForOldest();
  // A shim speaks at once, and somebody may wait for what it notifies of.
  char byte = 0;
  if (::recv(descriptor, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) > 0) Queue(descriptor);
}

// Makes room for one more process of the user. False: the user has enough, or no user has more silent
// processes than this user has processes. The user with the most silent processes loses the one that has
// waited longest.
bool Server::MakeRoomFor(uid_t user) {
  if (waiting_.size() + early_.size() < kMaxOfUser) return true;
  std::map<uid_t, std::size_t> counts, silent;
  for (const auto& [number, waiting] : waiting_) {
    ++counts[waiting.user];
    if (!waiting.spoke) ++silent[waiting.user];
  }
  for (const auto& [number, early] : early_) ++counts[early.waiting.user];
  if (user != 0 && counts[user] >= kMaxOfUser) return false;
  if (waiting_.size() < kMaxWaiting) return true;
  const auto most = std::max_element(silent.begin(), silent.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == silent.end() || most->second <= counts[user]) return false;
  // waiting_ is in the order in which the processes came.
  const auto oldest = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& entry) {
    return !entry.second.spoke && entry.second.user == most->first;
  });
  Forget(oldest->second);
  waiting_.erase(oldest);
  return true;
}

std::chrono::seconds Server::PatienceWith(const Waiting& waiting) {
  return waiting.spoke ? kEarlyPatience : kPatience;
}

// The connection is no longer watched. The closer may keep its descriptor for a moment longer.
void Server::Forget(const Waiting& waiting) {
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, waiting.connection.get(), nullptr);
  silent_.erase(waiting.connection.get());
}

void Server::DropOld() {
  Take(wakers_.patience);
  const auto now = Clock::now();
  std::erase_if(waiting_, [&](const auto& entry) {
    const Waiting& waiting = entry.second;
    const bool old = now - waiting.since >= PatienceWith(waiting);
    if (old && !waiting.spoke) Forget(waiting);
    return old;
  });
  std::erase_if(early_,
                [&](const auto& entry) { return now - entry.second.waiting.since >= kEarlyPatience; });
  WaitForOldest();
}

// The timer also drops a silent process when no other event happens.
void Server::WaitForOldest() {
  if (waiting_.empty() && early_.empty()) return;
  auto first = Clock::time_point::max();
  for (const auto& [number, waiting] : waiting_)
    first = std::min<Clock::time_point>(first, waiting.since + PatienceWith(waiting));
  for (const auto& [number, early] : early_)
    first = std::min<Clock::time_point>(first, early.waiting.since + kEarlyPatience);
  constexpr std::chrono::milliseconds kSoon{1};
  (void)Start(wakers_.patience, std::max<std::chrono::nanoseconds>(first - Clock::now(), kSoon));
}

// The process has spoken; the server reads its message when it is its user's turn.
void Server::Queue(int connection) {
  const auto found = silent_.find(connection);
  if (found == silent_.end()) return;
  const Number number = found->second;
  Waiting& waiting = waiting_.at(number);
  waiting.spoke = true;
  Forget(waiting);
  EnterTurn(waiting.user, number);
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
