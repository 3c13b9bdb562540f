#include "mover/host_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/parse_number.h"

namespace gpuman::mover {
namespace {

constexpr std::uint64_t kKiB = 1024, kMiB = kKiB * 1024;
constexpr std::uint64_t kNone = UINT64_MAX;

// A small file of the kernel as text; empty where it cannot be read.
template <std::size_t size>
const char* Read(const char* path, char (&text)[size]) {
  text[0] = '\0';
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  const ssize_t got = ::read(file, text, size - 1);
  ::close(file);
  text[got > 0 ? got : 0] = '\0';
  return text;
}

// The number after `name`; kNone where there is none, as for the word "max".
std::uint64_t NumberAfter(const char* text, const char* name) {
  const char* const at = std::strstr(text, name);
  if (at == nullptr) return kNone;
  std::string_view rest(at + std::strlen(name));
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  return base::TakeNumber<std::uint64_t>(rest).value_or(kNone);
}

// Whether a sixteenth of the memory is left after this, and at least 512 MiB.
bool Leaves(std::uint64_t available, std::uint64_t total, std::uint64_t bytes) {
  const std::uint64_t reserve = total / 16 > 512 * kMiB ? total / 16 : 512 * kMiB;
  return available > reserve && bytes <= available - reserve;
}

bool MachineHas(std::uint64_t bytes) {
  char text[4096];
  Read("/proc/meminfo", text);
  const std::uint64_t available = NumberAfter(text, "MemAvailable:"), total = NumberAfter(text, "MemTotal:");
  return available == kNone || total == kNone || Leaves(available * kKiB, total * kKiB, bytes);
}

bool CgroupHas(const char* directory, std::uint64_t bytes) {
  char path[4200], text[4096];
  std::snprintf(path, sizeof path, "%s/memory.max", directory);
  const std::uint64_t most = NumberAfter(Read(path, text), "");
  if (most == kNone) return true;
  std::snprintf(path, sizeof path, "%s/memory.current", directory);
  const std::uint64_t used = NumberAfter(Read(path, text), "");
  std::snprintf(path, sizeof path, "%s/memory.stat", directory);
  const std::uint64_t reclaimable = NumberAfter(Read(path, text), "\ninactive_file ");
  if (used == kNone) return true;
  const std::uint64_t needed = reclaimable < used ? used - reclaimable : reclaimable == kNone ? used : 0;
  return needed < most && Leaves(most - needed, most, bytes);
}

// Checks the process's cgroup (v2) and all above it.
bool CgroupsHave(std::uint64_t bytes) {
  char text[4096], directory[4160];
  const char* const line = std::strstr(Read("/proc/self/cgroup", text), "0::/");
  if (line == nullptr) return true;
  const int length = static_cast<int>(std::strcspn(line + 3, "\n"));
  const char* const root =
      ::access("/sys/fs/cgroup/cgroup.procs", F_OK) == 0 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified";
  std::snprintf(directory, sizeof directory, "%s%.*s", root, length, line + 3);
  for (const std::size_t top = std::strlen(root); std::strlen(directory) > top;) {
    if (!CgroupHas(directory, bytes)) return false;
    *std::strrchr(directory, '/') = '\0';
  }
  return true;
}

}  // namespace

bool HostHas(std::uint64_t bytes) { return MachineHas(bytes) && CgroupsHave(bytes); }

}  // namespace gpuman::mover
