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
#include "base/peer.h"
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
constexpr std::chrono::milliseconds kPause{50};     // where there is no descriptor for who comes

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

Caller CallerOf(const base::Peer& peer, const wire::Hello& hello) {
  Caller caller{peer.process(), peer.uid(), std::nullopt, {}};
  if (hello.job != 0) caller.claimed_job = base::JobId{static_cast<std::int64_t>(hello.job)};
  caller.key.assign(hello.key, ::strnlen(hello.key, sizeof hello.key));
  return caller;
}

Result<Fd> MakeTimer() {
  Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer.ok()) return base::FailSystem(errno, "making a timer");
  return timer;
}

bool Start(const Fd& timer, std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  itimerspec moment{};
  moment.it_value.tv_sec = seconds.count();
  moment.it_value.tv_nsec = (time - seconds).count();
  return ::timerfd_settime(timer.get(), 0, &moment, nullptr) == 0;
}

void Take(const Fd& timer) {
  std::uint64_t times = 0;
  (void)!::read(timer.get(), &times, sizeof times);
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
  Timers timers;
  GPUMAN_ASSIGN(timers.pause, MakeTimer());
  GPUMAN_ASSIGN(timers.patience, MakeTimer());
  for (const int fd : {listening.get(), timers.pause.get(), timers.patience.get()})
    if (Watch(poll.get(), EPOLL_CTL_ADD, fd, EPOLLIN) != 0)
      return base::FailSystem(errno, "watching the shims' socket");
  return Server(std::move(listening), std::move(poll), std::move(timers), ledgers, std::move(attribute),
                std::move(other_version));
}

// Processes that were not accepted wait in it, and what those have passed along.
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
    else if (descriptor == timers_.pause.get())
      GoOn();
    else if (descriptor == timers_.patience.get())
      DropOld();
    else
      Hear(descriptor);
  }
}

void Server::Accept() {
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
  if (!Start(timers_.pause, kPause)) return;
  paused_ = Watch(poll_.get(), EPOLL_CTL_MOD, listening_.get(), 0) == 0;
  if (!std::exchange(in_trouble_, true) && trouble_)
    trouble_(base::SystemError(reason, "accepting a process on the shims' socket"));
}

void Server::GoOn() {
  Take(timers_.pause);
  DropOld();
  if (std::exchange(paused_, false)) Watch(poll_.get(), EPOLL_CTL_MOD, listening_.get(), EPOLLIN);
}

void Server::Admit(GuestSocket connection) {
  const int descriptor = connection.get();
  const auto user = UserOf(descriptor);
  if (!user || !MakeRoomFor(*user)) return connection.HangUp();
  if (Watch(poll_.get(), EPOLL_CTL_ADD, descriptor, EPOLLIN) != 0) return;
  const bool first = waiting_.empty() && early_.empty();
  waiting_.emplace(descriptor, Waiting{std::move(connection), Clock::now(), base::TicksNow(), *user});
  if (first) WaitForOldest();
}

// False: the user has enough, or nobody has more than the user would have. Whoever has most loses the one
// that waits longest.
bool Server::MakeRoomFor(uid_t user) {
  if (waiting_.size() + early_.size() < kMostOfUser) return true;
  std::map<uid_t, std::size_t> counts;
  for (const auto& [descriptor, waiting] : waiting_) ++counts[waiting.user];
  const auto silent = counts;
  for (const auto& early : early_) ++counts[early.waiting.user];
  if (user != 0 && counts[user] >= kMostOfUser) return false;
  if (waiting_.size() < kMostWaiting) return true;
  const auto most = std::max_element(silent.begin(), silent.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == silent.end() || most->second <= counts[user]) return false;
  auto oldest = waiting_.end();
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (it->second.user != most->first) continue;
    if (oldest == waiting_.end() || it->second.since < oldest->second.since) oldest = it;
  }
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, oldest->first, nullptr);
  waiting_.erase(oldest);
  return true;
}

void Server::DropOld() {
  Take(timers_.patience);
  const auto now = Clock::now();
  std::erase_if(waiting_, [&](const auto& entry) {
    const bool old = now - entry.second.since >= kPatience;
    if (old) ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, entry.first, nullptr);
    return old;
  });
  std::erase_if(early_, [&](const auto& entry) { return now - entry.waiting.since >= kEarlyPatience; });
  WaitForOldest();
}

// Who says nothing is let go of also when nothing else happens.
void Server::WaitForOldest() {
  if (waiting_.empty() && early_.empty()) return;
  auto first = Clock::time_point::max();
  for (const auto& [descriptor, waiting] : waiting_) first = std::min(first, waiting.since + kPatience);
  for (const auto& early : early_) first = std::min(first, early.waiting.since + kEarlyPatience);
  constexpr std::chrono::milliseconds kSoon{1};
  (void)Start(timers_.patience, std::max<std::chrono::nanoseconds>(first - Clock::now(), kSoon));
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
    return PassOn(std::move(peer), hello);
  if (hello.magic != wire::kHelloMagic) return peer.connection.HangUp();
  const auto awaited = Answer(peer, hello);
  if (!awaited || early_.size() >= kMostWaiting) return peer.connection.HangUp();
  early_.push_back({std::move(peer), hello, *awaited});
}

// A process that counts in the ledger of the job that it is found to be of.
void Server::PassOn(Waiting waiting, const wire::Hello& hello) {
  const auto peer = base::PeerOf(waiting.connection.get(), waiting.accepted);
  if (!peer || hello.version != wire::kVersion) return;
  const auto found = attribute_(CallerOf(*peer, hello));
  if (found.verdict != Verdict::kJob || !ledgers_->Registered(found.job, peer->process()) || !peer->Lives())
    return;
  if (hello.magic == wire::kBellMagic) {
    if (bell_) bell_(found.job, peer->process());
    waiting.connection.HangUp();
  } else if (transfer_) {
    transfer_(found.job, peer->process(), hello.magic == wire::kOutMagic, std::move(waiting.connection));
  }
}

void Server::AskAgain() { AskAgain(std::optional<base::JobId>()); }
void Server::AskAgain(base::JobId job) { AskAgain(std::optional(job)); }

void Server::AskAgain(std::optional<base::JobId> job) {
  std::erase_if(early_, [&](Early& early) {
    if (job && early.job != *job && early.job != base::JobId{}) return false;
    const auto awaited = Answer(early.waiting, early.hello);
    if (awaited) {
      early.job = *awaited;
      return false;
    }
    early.waiting.connection.HangUp();
    return true;
  });
}

std::optional<base::JobId> Server::Answer(const Waiting& waiting, const wire::Hello& hello) {
  const int connection = waiting.connection.get();
  wire::Welcome welcome{};
  welcome.magic = wire::kWelcomeMagic;
  welcome.version = wire::kVersion;
  welcome.bytes = sizeof(wire::Ledger);
  const auto say = [&](wire::Answer answer, const Seat* seat) -> std::optional<base::JobId> {
    welcome.answer = answer;
    Send(connection, welcome, seat);
    return std::nullopt;
  };
  const auto peer = base::PeerOf(connection, waiting.accepted);
  if (!peer)
    return say(
        peer.error().code == base::ErrorCode::kNotFound ? wire::Answer::kNoJob : wire::Answer::kTryLater,
        nullptr);
  const auto caller = CallerOf(*peer, hello);
  const auto found = attribute_(caller);
  // What was found is about a pid: the peer's, if it still lives.
  if (!peer->Lives()) return say(wire::Answer::kNoJob, nullptr);
  if (found.verdict == Verdict::kLater) return found.job;
  if (found.verdict == Verdict::kNobody || !ledgers_->Has(found.job))
    return say(wire::Answer::kNoJob, nullptr);
  if (hello.version != wire::kVersion) {
    (void)say(wire::Answer::kOtherVersion, nullptr);
    if (other_version_) other_version_(found.job, caller, hello.version);
    return std::nullopt;
  }
  const auto seat = ledgers_->Join(found.job, caller.process);
  if (seat) welcome.slot = seat->slot;
  return say(seat ? wire::Answer::kJoined : wire::Answer::kTryLater, seat ? &*seat : nullptr);
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
