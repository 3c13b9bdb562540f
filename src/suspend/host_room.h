// Whether the host's memory can hold what a job has on its GPUs. The daemon asks before it moves anything, so
// that the user gets a refusal with the numbers, and the kernel's out-of-memory killer ends no process.
#pragma once

#include <filesystem>
#include <map>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "suspend/mover_options.h"

namespace gpuman::suspend {

struct HostMemory {
  base::Bytes total, available;  // as the kernel tells them: MemTotal, MemAvailable
};

// Pure. kCorrupt: the text is no meminfo.
base::Result<HostMemory> ParseHostMemory(std::string_view meminfo);
base::Result<HostMemory> ReadHostMemory(const std::filesystem::path& meminfo = "/proc/meminfo");

// The part that stays free: a sixteenth, and at least 512 MiB, as for the shim's own memory.
base::Bytes KeptFree(const HostMemory& memory);

// How much of `said` the daemon believes. `said`: the bytes that jobs say that they have in host memory. Jobs
// write that number into memory of their own, and a false number must not keep other jobs out. So all jobs
// together count with no more than the memory in use on the machine.
base::Bytes Believed(const HostMemory& memory, base::Bytes said);

struct HostRoom {
  base::Bytes budget;    // of all suspended jobs
  base::Bytes in_use;    // by other jobs that are suspended or whose memory is away during another job's turn
  base::Bytes prepared;  // the part of the budget that the job's shims already have
  base::Bytes available;  // MemAvailable, less the memory that jobs on their way out will still take
  base::Bytes kept_free;
};

// The bytes that a job would bring to the host: `evicted` through its shims, `checkpointed` through the
// driver.
struct HostNeed {
  base::Bytes evicted, checkpointed;
};

// kUnsatisfiable, with the numbers, where the need does not fit.
base::Result<> Holds(const HostRoom& room, const HostNeed& need);

// The same for one process that the driver is about to checkpoint; checks the machine's memory only.
base::Result<> HoldsCheckpoint(const HostMemory& memory, base::Bytes bytes);

// Copies that movers may keep of memory that is on a GPU again: what `in_use` (away now or on its way) leaves
// of the budget. Each user gets as much as is `wanted`, or where that is too much for all, a part of the rest
// in proportion. Such copies give way at once, so they are a part of no HostRoom.
std::map<MoverUser, base::Bytes> KeepFor(base::Bytes budget, base::Bytes in_use,
                                         const std::map<MoverUser, base::Bytes>& wanted);

}  // namespace gpuman::suspend
