// Why gpuman cannot use the daemon's socket, and what its user can do about it.
//
// ExplainConnectError decides (pure); LookAtSocket and ThisUser read the facts that it needs.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "base/result.h"

namespace gpuman::cli {

// A user, or the owner of a file; a uid without a name has its number as the name.
struct UserRef {
  uid_t uid = 0;
  std::string name;
};

enum class SocketState {
  kMissing,   // nothing has this name
  kSocket,    // it is a socket, whether somebody listens or not
  kNoSocket,  // it is a file of another kind
  kHidden,    // a directory above it may not be entered
};

struct SocketFacts {
  std::filesystem::path path;
  SocketState state = SocketState::kMissing;
  // What the facts below are about: the socket or file; where it is missing the directory that is nearest to
  // it; where it is hidden the directory that may not be entered.
  std::filesystem::path subject;
  UserRef owner;
  std::string group;  // of `subject`; empty: nobody but the owner may use it by its group
  bool group_may = false;
  bool caller_joined = false;  // the group lists the caller, whose session is older than that
};

enum class SocketKind {
  kNamed,   // --socket or GPUMAN_SOCKET
  kSystem,  // the one of the machine's service
  kOwn,     // the one of a daemon that the user has alone
};

SocketFacts LookAtSocket(const std::filesystem::path& path, const UserRef& caller);
UserRef ThisUser();
UserRef UserOf(uid_t uid);

// `error` is of api::ConnectTo; its code stays.
base::Error ExplainConnectError(base::Error error, const SocketFacts& facts, const UserRef& caller,
                                SocketKind kind, const std::filesystem::path& system_socket);

// The socket is answered by somebody who is neither the caller nor root.
base::Error ServedByAnother(const std::filesystem::path& path, const UserRef& server);

// kPermissionDenied where the place of the user's own daemon belongs to another user, as XDG_RUNTIME_DIR does
// after `su` and `sudo -E`: a daemon that is started there would be in that user's way.
base::Result<> CheckOwnPlace(const SocketFacts& facts, const UserRef& caller);

}  // namespace gpuman::cli
