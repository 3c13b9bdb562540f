// What a request handler sees of HTTP: a request with the credentials of its sender, and the functions to
// answer it at once, later, or as a stream.
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
#include <utility>
#include <vector>

#include "base/peer.h"
#include "base/result.h"
#include "daemon/http/party.h"

namespace gpuman::daemon::http {

using Headers = std::vector<std::pair<std::string, std::string>>;  // names and values

// The process at the other end, as the kernel names it (SO_PEERCRED); over TCP the user is kNobody. Another
// process may have the pid by now: see Exchange::Process.
inline constexpr unsigned kNobody = 65534;
struct Peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
  bool over_tcp = false;
};

struct Request {
  Peer peer;
  Party party = 0;                           // for which the work of the request counts
  std::string method;                        // "GET", …
  std::string path;                          // still percent-encoded, without the query
  std::map<std::string, std::string> query;  // decoded
  std::string body;
  // Headers; empty: the request has no such header, or more than one.
  std::string host{}, origin{}, fetch_site{}, authorization{};

  // The value of a query parameter; nullopt where it was not given.
  std::optional<std::string_view> Query(std::string_view name) const;
};

struct Response {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers{};  // besides those that every answer has
};

// The answer to a failed request: status by the error's code, body {"error":{"code","message","hint"}}.
Response ErrorResponse(const base::Error& error);

// One request being answered. A handler may keep the pointer and answer later. The request's body is there,
// and counts for its user, until the answer is complete or all holders have dropped the pointer. If they drop
// it without an answer, the connection is closed. The client may go away at any time; answers are
// dropped then.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  // The process that connected. Errors: those of base::PeerOf. Over TCP the process is not known.
  virtual base::Result<base::Peer> Process() const {
    return base::Fail(base::ErrorCode::kNotFound, "it is not known which process connected");
  }

  // The answer gets this line of text for the person who asked (api::kNoteHeader), the same line once, and
  // few lines. Call it before the answer begins.
  virtual void Note(std::string_view /*text*/) {}

  // Sends the whole answer. The handler calls exactly one of Send and BeginStream, once.
  virtual void Send(Response response) = 0;

  // Answers in pieces: the handler begins the stream, writes any number of pieces, and ends the stream. The
  // server disconnects a client that reads so slowly that more bytes than the server's limit wait to be sent.
  // `header`: one more line of the head, "Name: value".
  virtual void BeginStream(std::string_view content_type, std::string_view header) = 0;
  void BeginStream(std::string_view content_type) { BeginStream(content_type, {}); }
  virtual void Write(std::string data) = 0;
  virtual void EndStream() = 0;
  // Bytes written that the client has not taken yet. A handler that has much to send waits until they are
  // few.
  virtual std::size_t Unsent() const = 0;
  // Calls `sent` once when the client has taken all that was written; at once if it has already, never if the
  // client goes away before. The next call of WhenSent replaces a callback that still waits.
  virtual void WhenSent(std::function<void()> sent) = 0;

  // Calls `gone` at most once, when the client goes away before the answer is complete; at once if the client
  // has gone already.
  virtual void OnGone(std::function<void()> gone) = 0;
  // The client has gone: nobody takes the answer.
  virtual bool Gone() const { return false; }
};

using ExchangePtr = std::shared_ptr<Exchange>;  // shared by the handler's callbacks and the session
using Handler = std::function<void(const ExchangePtr&)>;

// Decodes escapes such as "%7E"; nullopt for a broken escape or an embedded NUL.
std::optional<std::string> DecodePercent(std::string_view text);
// Here, and only here, '+' is a space as well.
std::map<std::string, std::string> ParseQuery(std::string_view text);

}  // namespace gpuman::daemon::http
