// Holds a job to the host memory and the processors that it asked for: by the cgroup of its own where this
// machine lets us make one with the controllers for it, else processors by affinity, and memory not at all.
//
// Memory is `memory.max`, swap included (`memory.swap.max` 0): over it the kernel ends the job's processes,
// all of them together. Processors are `cpu.max`, so much time of any processors: no set of them has to be
// kept in anybody's books. A limit of the address space is no substitute: CUDA programs reserve terabytes.
//
// The cgroup is made below the nearest of our own and those around it that hands the controllers down
// (cgroups(7), "no internal processes"). Only our own one, and one that was delegated to us, is told to;
// what is somebody else's is taken as it is. Thread-safe; errors are sentences for the job's owner.
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
// one around it, up to `top`. kNotSupported, and why, where there is none.
base::Result<std::filesystem::path> FindLimitingParent(const std::filesystem::path& own,
                                                       const std::filesystem::path& top,
                                                       const std::vector<std::string>& controllers);

// Writes the limits into the files of a cgroup whose controllers are there.
base::Result<> LimitMemory(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit);
base::Result<> LimitProcessors(const std::filesystem::path& cgroup, int count);

// How often the kernel ended a process of the cgroup for its memory limit; nullopt where it does not tell.
std::optional<std::uint64_t> OutOfMemoryKills(const std::filesystem::path& cgroup);
// The reason of an end by that limit, with the numbers.
Reason HostMemoryReason(base::Bytes limit, std::optional<base::Bytes> peak);
// The most that the cgroup ever had; nullopt where the kernel does not tell (before 5.19).
std::optional<base::Bytes> PeakMemory(const std::filesystem::path& cgroup);

// `count` of `allowed`: those that the fewest processes are pinned to (`pinned`: how many, by processor), and
// among equals those from place `turn` on. All where there are no more. In ascending order. Pure.
std::vector<int> ChooseProcessors(const std::vector<int>& allowed, const std::map<int, int>& pinned,
                                  std::size_t count, std::size_t turn);
// The same for this machine as it is now, for the job with this number.
std::vector<int> FreestProcessors(std::size_t count, std::int64_t job);
// "0-3,8" of a list of processors as /proc writes it; empty for what is none. Pure.
std::vector<int> ParseProcessors(std::string_view text);

// What becomes of a job's limits.
struct HostHold {
  std::filesystem::path parent;  // to make the job's cgroup in; empty: where it would be without limits
  bool memory = false;           // both: there, by that cgroup
  bool processors = false;
  std::vector<std::string> notes;  // what cannot be held, and why
};
// `own`: the cgroup this process is in; its error where there is none. `top`: the root of the tree.
HostHold PlanHostLimits(const HostLimits& limits, const base::Result<std::filesystem::path>& own,
                        const std::filesystem::path& top);

}  // namespace gpuman::keeper
