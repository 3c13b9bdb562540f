// Handles descriptors that came over a socket from another user's process, and may be anything.
#pragma once

namespace gpuman::suspend {

// Whether the descriptor can be memory of a GPU: a device of the driver's, or (the simulated driver) a file
// without a name. Closing such a descriptor waits for no other user; closing a socket, or a file of another
// user's file system, may block for as long as its owner likes. For the same reason this function asks no
// file system.
bool CanBeDeviceMemory(int descriptor);

}  // namespace gpuman::suspend
