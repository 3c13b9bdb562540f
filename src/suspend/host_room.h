// Whether the host's memory can hold what a job has on its GPUs. The daemon asks before it does anything, so
// that a refusal with the numbers answers, and never the kernel's out-of-memory killer.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::suspend {

struct HostMemory {
  base::Bytes total, available;  // as the kernel tells them: MemTotal, MemAvailable
};

// Pure. kCorrupt: the text is no meminfo.
base::Result<HostMemory> ParseHostMemory(std::string_view meminfo);
base::Result<HostMemory> ReadHostMemory(const std::filesystem::path& meminfo = "/proc/meminfo");

// The part that stays free: a sixteenth, and at least 512 MiB, as for the shim's own memory.
base::Bytes KeptFree(const HostMemory& memory);

// How much is believed of what jobs say that they have in host memory: they write the number into memory of
// their own, and a lie must not keep other jobs out. All jobs together have no more than is in use on the
// machine.
base::Bytes Believed(const HostMemory& memory, base::Bytes said);

struct HostRoom {
  base::Bytes budget;     // of all suspended jobs
  base::Bytes in_use;     // by other jobs, suspended or away for another job's turn
  base::Bytes prepared;   // what the job's shims already have of it
  base::Bytes available;  // MemAvailable, without what jobs on their way out will still take
  base::Bytes kept_free;
};

// What a job would bring to the host: through its shims, and through the driver's checkpoint.
struct HostNeed {
  base::Bytes evicted, checkpointed;
};

// kUnsatisfiable, with the numbers, where it does not fit.
base::Result<> Holds(const HostRoom& room, const HostNeed& need);

// The same for one process that the driver is about to checkpoint; checks the machine's memory only.
base::Result<> HoldsCheckpoint(const HostMemory& memory, base::Bytes bytes);

}  // namespace gpuman::suspend
