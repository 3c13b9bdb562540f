// How much of the machine's memory this process may still take.
#pragma once

#include <cstdint>

namespace gpuman::mover {

// Whether the machine, and each cgroup that the process is in, has so many bytes and enough beyond them: it
// is better to refuse than to wake an out-of-memory killer.
bool HostHas(std::uint64_t bytes);

}  // namespace gpuman::mover
