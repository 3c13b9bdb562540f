// What came over a socket from somebody else's process, and may be anything.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "base/fd.h"

namespace gpuman::suspend {

// Whether the descriptor can be memory of a GPU: a device of the driver's, or (the simulated driver) a file
// without a name. To let go of one of those keeps nobody waiting, which a socket or a file of somebody else's
// file system may for as long as its owner likes. Asks nothing of a file system, for the same reason.
bool CanBeDeviceMemory(int descriptor);

// One message of a seqpacket socket with all descriptors that came with it: the kernel closes those for which
// there is no room, here and now. As recvmsg(2) with MSG_DONTWAIT.
ssize_t ReceiveAll(int socket, void* data, std::size_t size, std::vector<base::Fd>& files);

}  // namespace gpuman::suspend
