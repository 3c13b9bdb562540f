// Says whether memory of this process may have to leave the GPU. The environment that the process was started
// with says so, since the shim has to know it when the program asks for the driver's functions.
#pragma once

namespace gpuman::shim {

// Only the first call reads the environment. Thread-safe.
bool MayBeEvicted();

}  // namespace gpuman::shim
