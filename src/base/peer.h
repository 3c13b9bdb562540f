// Which process is at the other end of a unix socket. The pid that the kernel tells for a connection
// (SO_PEERCRED) names a process only while that process lives. A process may connect, give the connection to
// somebody else and end, and a process of another user may get its pid.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/process.h"
#include "base/result.h"

namespace gpuman::base {

// The process that connected. What a caller reads by its pid is about this process if Lives() is true
// afterwards.
class Peer {
 public:
  // `descriptor`: a pidfd; empty before Linux 6.5.
  Peer(ProcessId process, uid_t uid, Fd descriptor)
      : process_(process), uid_(uid), descriptor_(std::move(descriptor)) {}

  ProcessId process() const { return process_; }
  uid_t uid() const { return uid_; }  // its effective user when it connected
  bool Lives() const;

 private:
  ProcessId process_;
  uid_t uid_;
  Fd descriptor_;
};

// The pid and the user of the process that connected, or that made a pair of sockets, as the kernel kept
// them.
Result<ucred> CredentialsOf(int socket);

// Clock ticks since boot, in the unit of a start time. For PeerOf: take it when a connection is accepted.
std::uint64_t TicksNow();

// kNotFound: the process that connected has ended, or is in a pid namespace that this process does not see.
// Other errors: the kernel cannot answer now. Uses the kernel's descriptor of the process (SO_PEERPIDFD). An
// older kernel gives a pid alone; the process that has this pid is the peer if MayBePeer is true.
Result<Peer> PeerOf(int connection, std::uint64_t accepted);
// The same as PeerOf on a kernel without SO_PEERPIDFD.
Result<Peer> PeerByPid(int connection, std::uint64_t accepted);

// Whether a process that has the peer's pid now may be the one that connected: it is not younger than the
// connection, and one of its users (real, effective, saved, of files) is the user that connected. So a
// process can be taken for another one of the same user, but not of another user. Pure.
bool MayBePeer(std::uint64_t start_time, std::span<const uid_t> uids, uid_t peer, std::uint64_t accepted);

// The real, effective, saved and file system user of a process; empty: the process has ended.
std::vector<uid_t> UsersOf(pid_t pid);
// The user who made the user namespace of the process; nullopt: the process has ended, or the kernel does not
// say.
std::optional<uid_t> OwnerOfNamespace(pid_t pid);

}  // namespace gpuman::base
