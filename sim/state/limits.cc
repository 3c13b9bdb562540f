#include "sim/state/limits.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <utility>

#include "sim/state/state.h"

namespace gpuman::sim {
namespace {

namespace fs = std::filesystem;

// `hard` plus one, so that a fresh entry, and one that was cleared, have no limit.
std::uint64_t HardOf(const GroupLimit& limit) { return limit.hard_and_one.load() - 1; }

std::uint64_t KeyOf(unsigned gpu, std::uint64_t inode) { return inode << 8 | (gpu + 1); }

bool IsOn(const GroupLimit& limit, unsigned gpu) { return (limit.key.load() & 0xff) == gpu + 1; }

bool IsThere(const GroupLimit& limit) {
  const std::uint64_t key = limit.key.load();
  return key != 0 && InodeOf(limit.path) == key >> 8;
}

std::span<const GroupLimit> Used(const Shared& shared) {
  return std::span(shared.group_limits).first(shared.group_limits_end.load());
}

// The entry of this cgroup, or one that nobody uses.
GroupLimit* EntryOf(Shared& shared, unsigned gpu, std::uint64_t inode) {
  const std::uint64_t key = KeyOf(gpu, inode);
  for (GroupLimit& limit : shared.group_limits)
    if (limit.key.load() == key) return &limit;
  for (std::uint32_t i = 0; i < kMaxGroupLimits; ++i) {
    GroupLimit& limit = shared.group_limits[i];
    std::uint64_t former = limit.key.load();
    if (former != 0 && IsThere(limit)) continue;
    std::uint32_t end = shared.group_limits_end.load();
    while (end < i + 1 && !shared.group_limits_end.compare_exchange_weak(end, i + 1)) {
    }
    limit.hard_and_one.store(0);  // before the entry is another cgroup's
    limit.times.store(0);
    if (limit.key.compare_exchange_strong(former, key)) return &limit;
  }
  return nullptr;
}

LimitOfGroup Read(const GroupLimit& limit) {
  return {limit.path, limit.soft.load(), HardOf(limit), limit.times.load()};
}

// The directory of this process's cgroup, and where the tree of cgroups v2 begins.
std::optional<std::pair<fs::path, fs::path>> OwnGroup() {
  std::ifstream groups("/proc/self/cgroup"), mounts("/proc/self/mountinfo");
  std::string path;
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::")) path = line.substr(3);
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" - cgroup2 ") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string skipped, root, mount;
    fields >> skipped >> skipped >> skipped >> root >> mount;
    if (root != "/" || path.empty()) continue;
    const fs::path directory = fs::path(mount) / fs::path(path).relative_path();
    return std::pair((directory / "").lexically_normal().parent_path(), fs::path(mount));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> InodeOf(const char* directory) {
  struct stat status {};
  if (stat(directory, &status) != 0 || !S_ISDIR(status.st_mode)) return std::nullopt;
  return static_cast<std::uint64_t>(status.st_ino);
}

bool SetGroupLimit(Shared& shared, unsigned gpu, std::uint64_t inode, const char* path, std::uint64_t soft,
                   std::uint64_t hard) {
  GroupLimit* const limit = EntryOf(shared, gpu, inode);
  if (limit == nullptr || std::strlen(path) >= sizeof limit->path) return false;
  std::memcpy(limit->path, path, std::strlen(path) + 1);
  limit->soft.store(soft);
  limit->hard_and_one.store(hard + 1);
  limit->times.fetch_add(1);
  return true;
}

std::optional<LimitOfGroup> GroupLimitOf(const Shared& shared, unsigned gpu, std::uint64_t inode) {
  for (const GroupLimit& limit : Used(shared))
    if (limit.key.load() == KeyOf(gpu, inode)) return Read(limit);
  return std::nullopt;
}

std::vector<LimitOfGroup> GroupLimitsOn(const Shared& shared, unsigned gpu) {
  std::vector<LimitOfGroup> limits;
  for (const GroupLimit& limit : Used(shared))
    if (IsOn(limit, gpu) && limit.hard_and_one.load() != 0 && IsThere(limit)) limits.push_back(Read(limit));
  return limits;
}

void ForgetGroupLimits(Shared& shared, unsigned gpu) {
  for (GroupLimit& limit : shared.group_limits) {
    if (!IsOn(limit, gpu)) continue;
    limit.soft.store(0);
    limit.hard_and_one.store(0);
  }
}

void NoteGroups(ProcessSlot& slot) {
  std::size_t next = 0;
  if (const auto own = OwnGroup()) {
    auto [directory, top] = *own;
    for (; next < slot.groups.size(); directory = directory.parent_path()) {
      if (const auto inode = InodeOf(directory.c_str())) slot.groups[next++].store(*inode);
      if (directory == top || directory == directory.parent_path()) break;
    }
  }
  for (; next < slot.groups.size(); ++next) slot.groups[next].store(0);
}

std::uint64_t UsedByGroup(const Shared& shared, unsigned gpu, std::uint64_t inode) {
  std::uint64_t used = 0;
  const std::uint32_t slots = shared.slot_limit.load();
  for (unsigned i = 0; i < slots; ++i) {
    const ProcessSlot& slot = shared.processes[i];
    const bool inside = std::any_of(slot.groups.begin(), slot.groups.end(),
                                    [&](const Word64& group) { return group.load() == inode; });
    if (slot.owner.load() != 0 && inside) used += HeldBy(shared, slot, gpu);
  }
  return used;
}

bool HasGroupLimits(const Shared& shared, unsigned gpu) {
  const auto limits = Used(shared);
  return std::any_of(limits.begin(), limits.end(), [&](const GroupLimit& limit) {
    return IsOn(limit, gpu) && limit.hard_and_one.load() != 0;
  });
}

bool PassesGroupLimit(const Shared& shared, const ProcessSlot& slot, unsigned gpu, std::uint64_t bytes) {
  for (const Word64& group : slot.groups) {
    const std::uint64_t inode = group.load();
    if (inode == 0) break;
    const auto limit = GroupLimitOf(shared, gpu, inode);
    if (!limit || limit->hard == ~std::uint64_t{0}) continue;
    const std::uint64_t used = UsedByGroup(shared, gpu, inode);
    if (bytes > limit->hard || used > limit->hard - bytes) return true;
  }
  return false;
}

}  // namespace gpuman::sim
