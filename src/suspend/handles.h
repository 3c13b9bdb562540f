// Handles descriptors that came over a socket from another user's process, and may be anything.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "base/fd.h"

namespace gpuman::suspend {

// Whether the descriptor can be memory of a GPU: a device of the driver's, or (the simulated driver) a file
// without a name. Closing such a descriptor waits for no other user; closing a socket, or a file of another
// user's file system, may block for as long as its owner likes. For the same reason this function asks no
// file system.
bool CanBeDeviceMemory(int descriptor);

// Receives one message of a seqpacket socket, as recvmsg(2) with MSG_DONTWAIT does, with all descriptors that
// came with it: if a buffer had no room for some, the kernel would close them, in this thread.
ssize_t ReceiveAll(int socket, void* data, std::size_t size, std::vector<base::Fd>& files);

}  // namespace gpuman::suspend
