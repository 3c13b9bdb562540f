// How much of the machine's memory this process may still take.
#pragma once

#include <cstdint>

namespace gpuman::mover {

// Whether the machine, and each cgroup that the process is in, has so many bytes and a reserve beyond them:
// it is better to refuse than to cause the out-of-memory killer to end a process.
bool HostHas(std::uint64_t bytes);

}  // namespace gpuman::mover
