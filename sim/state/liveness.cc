#include "sim/state/liveness.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace gpuman::sim {
namespace {

int OpenPidfd(std::uint32_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0u));
}

}  // namespace

Liveness::~Liveness() {
  for (const auto& [identity, process] : watched_) {
    if (process.pidfd >= 0) close(process.pidfd);
  }
  if (epoll_ >= 0) close(epoll_);
}

bool Liveness::Watch(std::uint64_t identity) {
  if (watched_.contains(identity)) return true;
  const auto pid = sight_.Find(identity);
  if (!pid) return false;
  if (*pid == Sight::kElsewhere) {
    watched_.emplace(identity, Watched{*pid, -1});
    return true;
  }
  // The start time is compared after the pidfd is open, so that the pidfd is not a later process's.
  int fd = OpenPidfd(*pid);
  if (!Sight::StillRuns(identity, *pid)) {
    if (fd >= 0) close(fd);
    return false;
  }
  if (epoll_ < 0) epoll_ = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u64 = identity;
  if (fd >= 0 && epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
    close(fd);
    fd = -1;
  }
  watched_.emplace(identity, Watched{*pid, fd});
  return true;
}

void Liveness::Forget(std::uint64_t identity) {
  const auto found = watched_.find(identity);
  if (found == watched_.end()) return;
  if (const int fd = found->second.pidfd; fd >= 0) {
    // A forked child's copy of the descriptor would keep the registration alive.
    epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
    close(fd);
  }
  watched_.erase(found);
}

std::uint32_t Liveness::PidOf(std::uint64_t identity) const {
  const auto found = watched_.find(identity);
  return found == watched_.end() ? Sight::kElsewhere : found->second.pid;
}

std::vector<std::uint64_t> Liveness::Ended() {
  std::vector<std::uint64_t> ended;
  if (watched_.empty() || epoll_ < 0) return ended;
  std::array<epoll_event, 32> events;
  for (;;) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
    if (count < 0 && errno != EINTR) return WatchAllAnew();
    if (count <= 0) return ended;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t identity = events[static_cast<std::size_t>(i)].data.u64;
      if (!watched_.contains(identity)) continue;
      Forget(identity);
      if (!Watch(identity)) ended.push_back(identity);
    }
  }
}

std::vector<std::uint64_t> Liveness::EndedByProc() {
  std::vector<std::uint64_t> ended = Ended();
  std::erase_if(watched_, [&](const auto& entry) {
    const std::uint32_t pid = entry.second.pid;
    if (pid == Sight::kElsewhere || Sight::StillRuns(entry.first, pid)) return false;
    ended.push_back(entry.first);
    return true;  // the program closed its descriptor, whose number may be another file's by now
  });
  return ended;
}

// The program closed our descriptors: their numbers may now be other files', so they are not closed.
std::vector<std::uint64_t> Liveness::WatchAllAnew() {
  std::unordered_map<std::uint64_t, Watched> before;
  before.swap(watched_);
  epoll_ = -1;
  std::vector<std::uint64_t> ended;
  for (const auto& [identity, process] : before) {
    if (!Watch(identity)) ended.push_back(identity);
  }
  return ended;
}

}  // namespace gpuman::sim
