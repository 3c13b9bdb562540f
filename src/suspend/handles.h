// Handles descriptors that came over a socket from another user's process, and may be anything.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "base/fd.h"

namespace gpuman::suspend {

// Whether the descriptor can be memory of a GPU: a device of the driver's, or (the simulated driver) a file
// without a name. To close one of those blocks nobody; to close a socket, or a file of another user's file
// system, may block for as long as its owner likes. For the same reason this asks no file system.
bool CanBeDeviceMemory(int descriptor);

// Receives one message of a seqpacket socket with all descriptors that came with it: the kernel closes those
// for which there is no room, in this thread. As recvmsg(2) with MSG_DONTWAIT.
ssize_t ReceiveAll(int socket, void* data, std::size_t size, std::vector<base::Fd>& files);

}  // namespace gpuman::suspend
