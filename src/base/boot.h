// Which boot of the machine this is: what a process id, or a time of the monotonic clock, means something in.
#pragma once

#include <string>

namespace gpuman::base {

// As the kernel names it; empty: it does not say. Known once, it is not read again: without a descriptor
// left, every boot would be another one. Thread-safe.
std::string BootId();

}  // namespace gpuman::base
