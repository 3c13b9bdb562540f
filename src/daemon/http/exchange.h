// What a request handler sees of HTTP: a request with the credentials of who sent it, and the means to
// answer, at once, later, or as a stream.
//
// Everything here runs on the server's event loop; nothing is thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/peer.h"
#include "base/result.h"

namespace gpuman::daemon::http {

// Who is at the other end, by the kernel's word (SO_PEERCRED); over TCP that is nobody. The pid may be
// another process's by now: Exchange::Process.
inline constexpr unsigned kNobody = 65534;
struct Peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
};

struct Request {
  Peer peer;
  std::string method;                        // "GET", …
  std::string path;                          // still percent-encoded, without the query
  std::map<std::string, std::string> query;  // decoded
  std::string body;

  // The value of a query parameter; nullopt where it was not given.
  std::optional<std::string_view> Query(std::string_view name) const;
};

struct Response {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json";
};

// The answer to a failed request: status by the error's code, body {"error":{"code","message","hint"}}.
Response ErrorResponse(const base::Error& error);

// One request being answered. A handler may keep the pointer and answer later; whoever drops it unanswered
// closes the connection. The client may go away at any time: answers then go nowhere.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  // The process that connected. Errors as base::PeerOf has them; over TCP it is not known.
  virtual base::Result<base::Peer> Process() const {
    return base::Fail(base::ErrorCode::kNotFound, "it is not known which process connected");
  }

  // Answers whole. Exactly one of Send and BeginStream, once.
  virtual void Send(Response response) = 0;

  // Answers in pieces: begin, write any number, end. A client that reads too slowly, so that more than the
  // server's limit waits to be sent, is disconnected. `header`: one more line of the head, "Name: value".
  virtual void BeginStream(std::string_view content_type, std::string_view header) = 0;
  void BeginStream(std::string_view content_type) { BeginStream(content_type, {}); }
  virtual void Write(std::string data) = 0;
  virtual void EndStream() = 0;
  // Bytes written that the client has not taken yet: who has much to send waits for it.
  virtual std::size_t Unsent() const = 0;
  // Calls `sent` once when the client has taken all that was written, at once where it has; never when it is
  // gone before. The next call replaces one that waits.
  virtual void WhenSent(std::function<void()> sent) = 0;

  // Called at most once when the client is gone before the answer was complete; at once where it is already.
  virtual void OnGone(std::function<void()> gone) = 0;
};

using ExchangePtr = std::shared_ptr<Exchange>;  // shared by the handler's callbacks and the session
using Handler = std::function<void(const ExchangePtr&)>;

// "%7E" and friends; nullopt for a broken escape or an embedded NUL. '+' is a space only in queries.
std::optional<std::string> DecodePercent(std::string_view text, bool plus_is_space = false);
std::map<std::string, std::string> ParseQuery(std::string_view text);

}  // namespace gpuman::daemon::http
