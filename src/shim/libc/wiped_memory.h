// Memory that a fork wipes (MADV_WIPEONFORK): a child finds zeros there, so it inherits no lock and no count,
// and the shim needs no handler of forks.
#pragma once

#include <cstddef>

namespace gpuman::shim {

// Maps so many bytes, which are zeros. It returns null where there is no memory, and where the kernel cannot
// wipe memory for a child (before 4.14).
void* MapWiped(std::size_t bytes);
void UnmapWiped(void* memory, std::size_t bytes);

}  // namespace gpuman::shim
