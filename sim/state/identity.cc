#include "sim/state/identity.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace gpuman::sim {
namespace {

// A pid is below 2^22. Two processes of one pid and namespace whose starts differ by a multiple of 31 days
// have the same identity.
constexpr unsigned kStartBits = 28, kSpaceBits = 14;
constexpr std::uint64_t kStartMask = (std::uint64_t{1} << kStartBits) - 1;
constexpr std::uint64_t kSpaceMask = (std::uint64_t{1} << kSpaceBits) - 1;

std::uint32_t NumberOf(std::uint64_t identity) {
  return static_cast<std::uint32_t>(identity >> (kStartBits + kSpaceBits));
}
std::uint32_t SpaceOf(std::uint64_t identity) {
  return static_cast<std::uint32_t>(identity >> kStartBits & kSpaceMask);
}

std::optional<std::uint64_t> StartTicksIn(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::array<char, 1024> text;
  const ssize_t size = read(fd, text.data(), text.size() - 1);
  close(fd);
  if (size <= 0) return std::nullopt;
  text[static_cast<std::size_t>(size)] = '\0';
  // The name may contain spaces and parentheses: count fields from the last ')'. State is field 3, start time
  // 22.
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

// The number in "pid:[4026531836]".
std::optional<std::uint32_t> SpaceIn(const char* path) {
  std::array<char, 64> text{};
  if (readlink(path, text.data(), text.size() - 1) <= 0) return std::nullopt;
  const char* number = std::strchr(text.data(), '[');
  if (number == nullptr) return std::nullopt;
  return static_cast<std::uint32_t>(std::strtoull(number + 1, nullptr, 10) & kSpaceMask);
}

// The last number of the line "NSpid:": the pid in the process's own namespace.
std::uint32_t InnermostNumber(const char* path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "re"), std::fclose);
  if (file == nullptr) return 0;
  char* line = nullptr;
  std::size_t room = 0;
  unsigned long number = 0;
  while (number == 0 && getline(&line, &room, file.get()) > 0) {
    if (std::strncmp(line, "NSpid:", 6) == 0) number = std::strtoul(std::strrchr(line, '\t'), nullptr, 10);
  }
  std::free(line);
  return static_cast<std::uint32_t>(number);
}

bool Is(std::uint32_t pid, std::uint64_t identity) {
  if (!Sight::StillRuns(identity, pid)) return false;
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%u/ns/pid", pid);
  // Not every process may read this; number and start time must do then.
  if (SpaceIn(path.data()).value_or(SpaceOf(identity)) != SpaceOf(identity)) return false;
  std::snprintf(path.data(), path.size(), "/proc/%u/status", pid);
  return InnermostNumber(path.data()) == NumberOf(identity);
}

std::optional<std::uint32_t> FindAmongAll(std::uint64_t identity) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc"), closedir);
  if (directory == nullptr) return Sight::kElsewhere;
  while (const dirent* entry = readdir(directory.get())) {
    const auto pid = static_cast<std::uint32_t>(std::strtoul(entry->d_name, nullptr, 10));
    if (pid != 0 && Is(pid, identity)) return pid;
  }
  return std::nullopt;
}

bool ProcIsOwn() {
  std::array<char, 32> text{};
  return readlink("/proc/self", text.data(), text.size() - 1) > 0 &&
         std::strtol(text.data(), nullptr, 10) == getpid();
}

}  // namespace

std::uint64_t MakeIdentity(std::uint32_t number, std::uint32_t space, std::uint64_t start_ticks) {
  return std::uint64_t{number} << (kStartBits + kSpaceBits) | (space & kSpaceMask) << kStartBits |
         (start_ticks & kStartMask);
}

std::uint64_t OwnIdentity() {
  const auto start = StartTicksIn("/proc/self/stat");
  return start ? MakeIdentity(static_cast<std::uint32_t>(getpid()), OwnSpace(), *start) : 0;
}

std::uint32_t OwnSpace() { return SpaceIn("/proc/self/ns/pid").value_or(0); }

std::optional<std::uint64_t> ReadStartTicks(std::uint32_t pid) {
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%u/stat", pid);
  return StartTicksIn(path.data());
}

Sight::Sight(std::uint32_t machine_space)
    : machine_(machine_space), own_(OwnSpace()), proc_is_own_(ProcIsOwn()) {}

std::optional<std::uint32_t> Sight::Find(std::uint64_t identity) const {
  if (!proc_is_own_) return kElsewhere;
  if (SpaceOf(identity) == own_) {
    const std::uint32_t pid = NumberOf(identity);
    return StillRuns(identity, pid) ? std::optional(pid) : std::nullopt;
  }
  return own_ == machine_ ? FindAmongAll(identity) : kElsewhere;
}

bool Sight::StillRuns(std::uint64_t identity, std::uint32_t pid) {
  const auto start = ReadStartTicks(pid);
  return start && (*start & kStartMask) == (identity & kStartMask);
}

}  // namespace gpuman::sim
