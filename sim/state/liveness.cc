#include "sim/state/liveness.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gpuman::sim {
namespace {

constexpr unsigned kStartBits = 42;
constexpr std::uint64_t kStartMask = (std::uint64_t{1} << kStartBits) - 1;

int OpenPidfd(std::uint32_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0u));
}

bool RunsByProc(std::uint64_t identity) {
  const auto start = ReadStartTicks(PidOf(identity));
  return start && MakeIdentity(PidOf(identity), *start) == identity;
}

}  // namespace

std::uint64_t MakeIdentity(std::uint32_t pid, std::uint64_t start_ticks) {
  return (static_cast<std::uint64_t>(pid) << kStartBits) | (start_ticks & kStartMask);
}

std::uint32_t PidOf(std::uint64_t identity) { return static_cast<std::uint32_t>(identity >> kStartBits); }

std::optional<std::uint64_t> ReadStartTicks(std::uint32_t pid) {
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%u/stat", pid);
  const int fd = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::array<char, 1024> text;
  const ssize_t size = read(fd, text.data(), text.size() - 1);
  close(fd);
  if (size <= 0) return std::nullopt;
  text[static_cast<std::size_t>(size)] = '\0';
  // The name may hold spaces and parentheses: count fields from the last ')'. State is field 3, start
  // time 22.
  const char* at = std::strrchr(text.data(), ')');
  if (at == nullptr || std::strlen(at) < 3) return std::nullopt;
  at += 2;
  if (*at == 'Z' || *at == 'X') return std::nullopt;
  for (int field = 3; field < 22; ++field) {
    at = std::strchr(at, ' ');
    if (at == nullptr) return std::nullopt;
    ++at;
  }
  return std::strtoull(at, nullptr, 10);
}

std::uint64_t OwnIdentity() {
  const auto pid = static_cast<std::uint32_t>(getpid());
  const auto start = ReadStartTicks(pid);
  return start ? MakeIdentity(pid, *start) : 0;
}

Liveness::~Liveness() {
  for (const auto& [identity, fd] : pidfds_) {
    if (fd >= 0) close(fd);
  }
  if (epoll_ >= 0) close(epoll_);
}

bool Liveness::Watch(std::uint64_t identity) {
  if (pidfds_.contains(identity)) return true;
  // The start time is compared after the pidfd is open, so the pidfd is that process's and no later one's.
  int fd = OpenPidfd(PidOf(identity));
  if (!RunsByProc(identity)) {
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
  pidfds_.emplace(identity, fd);
  return true;
}

void Liveness::Forget(std::uint64_t identity) {
  const auto found = pidfds_.find(identity);
  if (found == pidfds_.end()) return;
  if (found->second >= 0) {
    // A copy of the descriptor that a child of fork has would keep the registration alive.
    epoll_ctl(epoll_, EPOLL_CTL_DEL, found->second, nullptr);
    close(found->second);
  }
  pidfds_.erase(found);
}

std::vector<std::uint64_t> Liveness::Ended() {
  std::vector<std::uint64_t> ended;
  if (pidfds_.empty() || epoll_ < 0) return ended;
  std::array<epoll_event, 32> events;
  for (;;) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
    if (count < 0 && errno != EINTR) return WatchAllAnew();
    if (count <= 0) return ended;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t identity = events[static_cast<std::size_t>(i)].data.u64;
      if (!pidfds_.contains(identity)) continue;
      Forget(identity);
      if (!Watch(identity)) ended.push_back(identity);
    }
  }
}

std::vector<std::uint64_t> Liveness::EndedByProc() {
  std::vector<std::uint64_t> ended = Ended();
  std::erase_if(pidfds_, [&](const auto& entry) {
    if (RunsByProc(entry.first)) return false;
    ended.push_back(entry.first);
    return true;  // its descriptor told nothing, so it was closed; the number may be another file's by now
  });
  return ended;
}

// The program closed our descriptors: their numbers may be other files' by now, so they are left alone.
std::vector<std::uint64_t> Liveness::WatchAllAnew() {
  std::unordered_map<std::uint64_t, int> before;
  before.swap(pidfds_);
  epoll_ = -1;
  std::vector<std::uint64_t> ended;
  for (const auto& [identity, fd] : before) {
    if (!Watch(identity)) ended.push_back(identity);
  }
  return ended;
}

}  // namespace gpuman::sim
