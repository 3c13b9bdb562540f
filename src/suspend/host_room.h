// Whether the host's memory holds what a job has on its GPUs: asked before anything is done, so that it is a
// refusal with the numbers that answers, never the kernel's out-of-memory killer.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::suspend {

struct HostMemory {
  base::Bytes total, available;  // as the kernel says: MemTotal, MemAvailable
};

// Pure. kCorrupt: no meminfo.
base::Result<HostMemory> ParseHostMemory(std::string_view meminfo);
base::Result<HostMemory> ReadHostMemory(const std::filesystem::path& meminfo = "/proc/meminfo");

// What stays free of it: a sixteenth, and at least 512 MiB, as with the shim's own memory.
base::Bytes KeptFree(const HostMemory& memory);

// Of what jobs say that they have there: they write it into memory of their own, and a lie must not keep
// others out. All of them together have no more than is in use on the machine.
base::Bytes Believed(const HostMemory& memory, base::Bytes said);

struct HostRoom {
  base::Bytes budget;     // of all suspended jobs
  base::Bytes in_use;     // by other jobs, suspended or away for another's turn
  base::Bytes prepared;   // what the job's shims have of it already
  base::Bytes available;  // MemAvailable, less what jobs on their way out will still take
  base::Bytes kept_free;
};

// What a job would bring to the host: by its shims, and by the driver's checkpoint.
struct HostNeed {
  base::Bytes evicted, checkpointed;
};

// kUnsatisfiable with the numbers.
base::Result<> Holds(const HostRoom& room, const HostNeed& need);

// The same for one process that the driver is about to checkpoint, of the machine's memory alone.
base::Result<> HoldsCheckpoint(const HostMemory& memory, base::Bytes bytes);

}  // namespace gpuman::suspend
