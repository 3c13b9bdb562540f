// Limits of a GPU's memory for a cgroup v2, which the simulated driver holds as drivers from 615 on are
// documented to: all processes in the cgroup and below it have no more than the hard limit together; managed
// memory does not count; with the cgroup its limits are gone.
//
// A cgroup is known by its directory's inode, which it has in each namespace. Each process notes in its slot
// in which cgroups it is. A limit is one word, so a process that is killed while it sets one leaves either
// the former limit or the new one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/state/layout.h"

namespace gpuman::sim {

struct LimitOfGroup {
  std::string path;  // of the cgroup's directory, as the caller of SetGroupLimit wrote it
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;   // ~0: none
  std::uint32_t times = 0;  // how often it was set
};

// The inode of a directory; nullopt: it cannot be opened.
std::optional<std::uint64_t> InodeOf(const char* directory);
// False: there is no room for another limit.
bool SetGroupLimit(Shared& shared, unsigned gpu, std::uint64_t inode, const char* path, std::uint64_t soft,
                   std::uint64_t hard);
// nullopt: none was ever set.
std::optional<LimitOfGroup> GroupLimitOf(const Shared& shared, unsigned gpu, std::uint64_t inode);
// Of cgroups that are still there; without those that were cleared.
std::vector<LimitOfGroup> GroupLimitsOn(const Shared& shared, unsigned gpu);
void ForgetGroupLimits(Shared& shared, unsigned gpu);

// Notes in which cgroups this process is, from /proc.
void NoteGroups(ProcessSlot& slot);
// What the processes in the cgroup have of the GPU together, as far as it counts.
std::uint64_t UsedByGroup(const Shared& shared, unsigned gpu, std::uint64_t inode);
bool HasGroupLimits(const Shared& shared, unsigned gpu);
// Whether a limit of one of the slot's cgroups would be passed with `bytes` more.
bool PassesGroupLimit(const Shared& shared, const ProcessSlot& slot, unsigned gpu, std::uint64_t bytes);

}  // namespace gpuman::sim
