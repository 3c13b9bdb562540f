// How much of the machine's memory this process may still take.
#pragma once

#include <cstdint>

namespace gpuman::mover {

// Whether there are so many bytes for it, with enough left to the machine, and to each cgroup that the
// process is in: nobody's out-of-memory killer is to come for what could have been refused.
bool HostHas(std::uint64_t bytes);

}  // namespace gpuman::mover
