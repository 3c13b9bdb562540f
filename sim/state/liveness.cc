#include "sim/state/liveness.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

Liveness::~Liveness() { CloseAllBut({}); }

void Liveness::CloseAllBut(const std::vector<std::uint64_t>& identities) {
  std::erase_if(pidfds_, [&](const auto& entry) {
    const bool keep = std::find(identities.begin(), identities.end(), entry.first) != identities.end();
    if (!keep) close(entry.second);
    return !keep;
  });
}

std::vector<std::uint64_t> Liveness::Dead(const std::vector<std::uint64_t>& identities) {
  std::vector<std::uint64_t> dead;
  if (identities.empty()) return dead;
  const std::lock_guard lock(mutex_);
  if (pidfds_.size() > 2 * identities.size() + 8) CloseAllBut(identities);

  std::vector<pollfd> polls;
  std::vector<std::uint64_t> polled;
  polls.reserve(identities.size());
  polled.reserve(identities.size());
  for (const std::uint64_t identity : identities) {
    auto found = pidfds_.find(identity);
    if (found == pidfds_.end()) {
      // The start time is compared after the pidfd is open, so the pidfd is that process's and no later
      // one's.
      const int fd = OpenPidfd(PidOf(identity));
      if (!RunsByProc(identity)) {
        if (fd >= 0) close(fd);
        dead.push_back(identity);
        continue;
      }
      if (fd < 0) continue;  // out of descriptors: alive by /proc, asked again next time
      found = pidfds_.emplace(identity, fd).first;
    }
    polls.push_back({found->second, POLLIN, 0});
    polled.push_back(identity);
  }
  if (polls.empty() || poll(polls.data(), polls.size(), 0) <= 0) return dead;
  for (std::size_t i = 0; i < polls.size(); ++i) {
    if (polls[i].revents == 0) continue;
    // A program may have closed our descriptor and got its number for something else: ask /proc before
    // believing.
    const bool ours = (polls[i].revents & POLLNVAL) == 0;
    if (RunsByProc(polled[i])) {
      pidfds_.erase(polled[i]);
      continue;
    }
    if (ours) close(polls[i].fd);
    pidfds_.erase(polled[i]);
    dead.push_back(polled[i]);
  }
  return dead;
}

}  // namespace gpuman::sim
