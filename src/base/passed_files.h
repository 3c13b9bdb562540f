// Descriptors that go along with a message of a unix socket (SCM_RIGHTS). Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace gpuman::base {

// The kernel passes no more descriptors with one message.
inline constexpr std::size_t kMaxPassedFiles = 253;  // SCM_MAX_FD

// Sends the data with the descriptors as one message, as send(2) with MSG_NOSIGNAL and MSG_DONTWAIT does.
// EINVAL: more descriptors than kMaxPassedFiles.
ssize_t SendWithFiles(int socket, std::string_view data, std::span<const int> files);

// Receives one message, as recv(2) with MSG_DONTWAIT does, and adds all descriptors that came with it to
// `files`. Where a buffer had no room for some, the kernel would close them in this thread, and that may take
// as long as their owner likes (closer.h).
ssize_t ReceiveWithFiles(int socket, void* data, std::size_t size, std::vector<Fd>& files);

}  // namespace gpuman::base
