// Memory that a fork wipes (MADV_WIPEONFORK). A child finds zeros there, so it inherits no lock and no count,
// and the shim needs no fork handler.
#pragma once

#include <cstddef>

namespace gpuman::shim {

// Maps `bytes` of zeros. Returns null where there is no memory, or where the kernel cannot wipe memory for a
// child (before Linux 4.14).
void* MapWiped(std::size_t bytes);
void UnmapWiped(void* memory, std::size_t bytes);

}  // namespace gpuman::shim
