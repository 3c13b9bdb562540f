// One HTTP/1.1 exchange over a unix socket, blocking: connect, ask, read, close.
//
// What a daemon can do wrong (end in the middle, say nothing, answer with something else, send without end)
// comes back as an Error: kUnavailable where the connection is at fault, kTimeout for silence, kInternal for
// nonsense. Thread-safe: nothing is shared between calls.
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
  std::string body;  // empty where a sink took it
};

// Takes pieces of a successful answer's body as they come; false: enough, close.
using BodySink = std::function<bool(std::string_view)>;

struct HttpOptions {
  // A line of the head that is asked for, and who takes its value before the body comes; not called where the
  // answer has no such line.
  std::string header{};
  std::function<void(std::string_view)> take_header{};
  // The longest silence while an answer is awaited; absent: wait for ever.
  std::optional<base::Millis> patience = base::Millis(30'000);
  // Absent: the body is collected, at most 512 MiB of it.
  BodySink sink;
  // Watched while waiting: when this descriptor becomes readable, on_wake is called; false ends the exchange
  // with kConflict "interrupted".
  int wake_fd = -1;
  std::function<bool()> on_wake;
};

// kUnavailable: nothing serves there. kPermissionDenied: the caller may not open it.
base::Result<base::Fd> ConnectTo(const std::filesystem::path& socket);
// The user on the other side of a connected socket.
std::optional<uid_t> PeerUser(int fd);

base::Result<HttpAnswer> Exchange(const std::filesystem::path& socket, const HttpRequest& request,
                                  const HttpOptions& options = {});
// Over a connection from ConnectTo.
base::Result<HttpAnswer> Exchange(base::Fd connection, const HttpRequest& request,
                                  const HttpOptions& options = {});

// For a path segment or a query value (RFC 3986: everything but the unreserved characters is encoded).
std::string PercentEncode(std::string_view text);

}  // namespace gpuman::api
