// Which boot of the machine this is. A process id and a time of the monotonic clock have a meaning only
// within one boot.
#pragma once

#include <string>

namespace gpuman::base {

// The kernel's name for this boot; empty: the kernel does not say. Once BootId knows it, it does not read it
// again: a process that has no descriptor left for the read would take every boot for another one.
// Thread-safe.
std::string BootId();

}  // namespace gpuman::base
