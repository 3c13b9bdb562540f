// Says why gpuman cannot use the daemon's socket, and what the user can do about it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "base/result.h"

namespace gpuman::cli {

// A user, or the owner of a file; for a uid without a name, `name` is the number.
struct UserIdentity {
  uid_t uid = 0;
  std::string name;
};

enum class SocketState {
  kMissing,   // nothing exists under this path
  kSocket,    // the path is a socket, whether a process listens or not
  kNoSocket,  // the path is a file of another kind
  kHidden,    // the caller may not enter a directory above it
};

struct SocketFacts {
  std::filesystem::path path;
  SocketState state = SocketState::kMissing;
  // The file or directory that the facts below are about: the socket or file; for kMissing the nearest
  // directory that exists; for kHidden the directory that the caller may not enter.
  std::filesystem::path subject;
  UserIdentity owner;
  std::string group;  // of `subject`; `group_may`: members of the group may use `subject`
  bool group_may = false;
  bool caller_joined = false;  // the group lists the caller, but the session began before the caller joined
};

enum class SocketKind {
  kNamed,   // --socket or GPUMAN_SOCKET
  kSystem,  // the socket of the machine's service
  kOwn,     // the socket of the user's own daemon
};

SocketFacts ReadSocketFacts(const std::filesystem::path& path, const UserIdentity& caller);
UserIdentity ThisUser();
UserIdentity UserOf(uid_t uid);

// Explains `error`, which api::ConnectTo returned; the code stays the same.
base::Error ExplainConnectError(base::Error error, const SocketFacts& facts, const UserIdentity& caller,
                                SocketKind kind, const std::filesystem::path& system_socket);

// The error for a socket that is served by a user who is neither the caller nor root.
base::Error ServedByAnother(const std::filesystem::path& path, const UserIdentity& server);

// kPermissionDenied where the directory for the user's own daemon belongs to another user, as XDG_RUNTIME_DIR
// does after `su` and `sudo -E`: a daemon that starts there would be in that user's way.
base::Result<> CheckOwnSocket(const SocketFacts& facts, const UserIdentity& caller);

}  // namespace gpuman::cli
