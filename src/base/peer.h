// Who is at the other end of a unix socket, by the connection. The pid that the kernel tells of a connection
// (SO_PEERCRED) names a process only while that process lives: who connects may end, keep the connection with
// somebody else, and have its pid used again by a process of another user.
#pragma once

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

// The process that connected. Whatever is found out about it by its pid is true where Lives() afterwards.
class Peer {
 public:
  // `descriptor`: a pidfd; none before Linux 6.5.
  Peer(ProcessId process, uid_t uid, Fd descriptor)
      : process_(process), uid_(uid), descriptor_(std::move(descriptor)) {}

  ProcessId process() const { return process_; }
  uid_t uid() const { return uid_; }  // its effective one when it connected
  bool Lives() const;

 private:
  ProcessId process_;
  uid_t uid_;
  Fd descriptor_;
};

// Clock ticks since boot, as a start time: of a connection, when it was accepted.
std::uint64_t TicksNow();

// kNotFound: who connected has ended, or is in a namespace of processes that we do not see. Other errors:
// that cannot be told now. Takes the kernel's descriptor of the process (SO_PEERPIDFD) where there is one;
// an older kernel names a pid alone, and what has that pid is the peer where MayBePeer.
Result<Peer> PeerOf(int connection, std::uint64_t accepted);
// As on a kernel without SO_PEERPIDFD.
Result<Peer> PeerByPid(int connection, std::uint64_t accepted);

// Whether a process that has the peer's pid now may be the one that connected: it is no younger than the
// connection, and one of its users (real, effective, saved, of files) is who connected. A user can thereby be
// taken for another process of the own, and for nobody else. Pure.
bool MayBePeer(std::uint64_t start_time, std::span<const uid_t> uids, uid_t peer, std::uint64_t accepted);

// Real, effective, saved user and the one of files of a process; empty: it has ended.
std::vector<uid_t> UsersOf(pid_t pid);
// Who made the user namespace that the process is in; nullopt: it has ended, or that cannot be told.
std::optional<uid_t> OwnerOfNamespace(pid_t pid);

}  // namespace gpuman::base
