// One HTTP/1.1 exchange over a unix socket, blocking: connect, ask, read, close.
//
// Each fault of a daemon comes back as an Error: kUnavailable if the connection fails or ends early, kTimeout
// if the daemon sends nothing for too long, kInternal if the answer is not HTTP or is too long. Thread-safe:
// calls share nothing.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "base/units.h"

namespace gpuman::api {

struct HttpRequest {
  std::string method = "GET";
  std::string target;  // path and query, percent-encoded
  std::string body;    // JSON
};

struct HttpAnswer {
  int status = 0;
  std::string body;  // empty if a sink took it
};

// Takes each piece of a successful answer's body when it comes; false: Exchange closes the connection.
using BodySink = std::function<bool(std::string_view)>;

struct HttpOptions {
  // The name of a header. `take_header` gets the header's value before the body comes; it is not called if
  // the answer has no such header.
  std::string header{};
  std::function<void(std::string_view)> take_header{};
  // Gets each note of a successful answer (kNoteHeader), before take_header.
  std::function<void(std::string_view)> take_note{};
  // The longest silence while waiting for an answer; absent: wait for ever.
  std::optional<base::Millis> patience = base::Millis(30'000);
  // Absent: the body is collected, up to 512 MiB.
  BodySink sink;
  // Exchange watches this descriptor while it waits. When the descriptor becomes readable, Exchange calls
  // on_wake; if on_wake returns false, the exchange ends with kConflict "interrupted".
  int wake_fd = -1;
  std::function<bool()> on_wake;
};

// kUnavailable: no daemon serves there. kPermissionDenied: the caller may not open it.
base::Result<base::Fd> ConnectTo(const std::filesystem::path& socket);
// The user on the other side of a connected socket.
std::optional<uid_t> PeerUser(int fd);

base::Result<HttpAnswer> Exchange(const std::filesystem::path& socket, const HttpRequest& request,
                                  const HttpOptions& options = {});
// The same over a connection from ConnectTo.
base::Result<HttpAnswer> Exchange(base::Fd connection, const HttpRequest& request,
                                  const HttpOptions& options = {});

// Encodes a path segment or a query value (RFC 3986: everything but the unreserved characters).
std::string PercentEncode(std::string_view text);

}  // namespace gpuman::api
