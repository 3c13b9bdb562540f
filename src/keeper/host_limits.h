// Holds a job to the host memory and the processors that it asked for: by the job's own cgroup where this
// machine lets us make one with the needed controllers. Elsewhere processors are held by affinity, and memory
// is not held.
//
// Memory is held by `memory.max`, without swap (`memory.swap.max` 0): over it the kernel ends all of the
// job's processes together. Processors are held by `cpu.max`, which limits the time on any processors: so
// gpuman need not record which job has which processors. A limit of the address space is no substitute: CUDA
// programs reserve terabytes.
//
// The cgroup is made below the nearest cgroup, our own or one around it, that hands the controllers down
// (cgroups(7), "no internal processes"). gpuman changes that only in its own cgroup and in one that was
// delegated to it; it leaves cgroups of others as they are. Thread-safe; errors are sentences for the job's
// owner.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "keeper/journal.h"
#include "keeper/spec.h"

namespace gpuman::keeper {

// A directory under which cgroups with `controllers` ("memory", "cpu") can be made: `gpuman` below `own` or
// one around it, up to `top`. kNotSupported, with the reason, where there is none.
base::Result<std::filesystem::path> FindLimitingParent(const std::filesystem::path& own,
                                                       const std::filesystem::path& top,
                                                       const std::vector<std::string>& controllers);

// Writes the limits into the files of a cgroup whose controllers are there.
base::Result<> LimitMemory(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit);
base::Result<> LimitProcessors(const std::filesystem::path& cgroup, int count);

// How often the kernel ended a process of the cgroup for its memory limit; nullopt where the kernel does not
// tell.
std::optional<std::uint64_t> OutOfMemoryKills(const std::filesystem::path& cgroup);
// The reason of an end by that limit, with the numbers.
EndReason HostMemoryReason(base::Bytes limit, std::optional<base::Bytes> peak);
// The most memory that the cgroup ever had; nullopt where the kernel does not tell (before 5.19).
std::optional<base::Bytes> PeakMemory(const std::filesystem::path& cgroup);

// Chooses `count` processors of `allowed`: those with the fewest processes pinned to them (`pinned`: number
// of processes by processor), and among equals those from place `turn` on. Returns all of `allowed` if it has
// no more than `count`. In ascending order. Pure.
std::vector<int> ChooseProcessors(const std::vector<int>& allowed, const std::map<int, int>& pinned,
                                  std::size_t count, std::size_t turn);
// The same for this machine as it is now, for the job with this number.
std::vector<int> FreestProcessors(std::size_t count, std::int64_t job);
// Reads a list of processors as /proc writes it, such as "0-3,8"; empty for text that is no such list. Pure.
std::vector<int> ParseProcessors(std::string_view text);

// How a job's limits are held.
struct HostLimitPlan {
  std::filesystem::path parent;  // the job's cgroup is made in it; empty: where it would be without limits
  bool memory = false;           // both: whether that cgroup holds this limit
  bool processors = false;
  std::vector<std::string> notes;  // the limits that cannot be held, and why
};
// `own`: the cgroup of this process, or the error where there is none. `top`: the root of the tree.
HostLimitPlan PlanHostLimits(const HostLimits& limits, const base::Result<std::filesystem::path>& own,
                             const std::filesystem::path& top);

}  // namespace gpuman::keeper
