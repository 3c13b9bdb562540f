// One connection: reads one request after the other and has each answered, until the client, the server or a
// time limit ends the connection.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/peer.h"
#include "daemon/http/body_claim.h"
#include "daemon/http/party.h"
#include "daemon/http/server.h"
#include "daemon/http/untrusted_stream.h"

namespace gpuman::daemon::http {

// The answer to one request. False: there was nothing to do, since the client has gone.
using Work = std::function<bool()>;

// What the sessions of one server have in common. It outlives the sessions.
struct SessionShared {
  ServerLimits limits;
  Handler handler;
  Headers headers;                         // of every answer
  std::function<void(Party, Work)> enter;  // does the work when it is the party's turn
  // Shared with claims, which may outlive the server.
  std::shared_ptr<BodyBudgets> bodies = std::make_shared<BodyBudgets>(
      BodyBudgets{LargeBodies(limits.large_bodies), BodyBudget(limits.bodies_of_user, limits.bodies_of_all)});
  std::map<Party, std::size_t> unsent{};                                    // bytes of answers; no entry is 0
  std::shared_ptr<base::Closer> closer = std::make_shared<base::Closer>();  // as UntrustedSocket has it
};

// Owned by its pending operations; the server keeps weak pointers to close it.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Socket socket, Peer peer, Party party, SessionShared& common, std::function<void()> on_closed);
  ~Session() { Close(); }

  void Start() { Read(limits_.request); }
  // Ends the connection, once. The callback of OnGone tells a handler that has not answered yet.
  void Close();
  // True while no request is being answered. The server closes such connections when there are too many.
  bool Silent() const { return !answering_ && !closed_; }
  Party party() const { return party_; }

 private:
  class Answer;
  friend class Answer;  // the current request, as its handler sees it
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void Read(std::chrono::milliseconds patience);  // a request; for its header
  void OnHeader(boost::beast::error_code error);
  void OnRead(boost::beast::error_code error);
  bool Admit();
  bool AdmitLarge();
  void RefuseSize(std::size_t limit);
  void Refuse(unsigned status, const base::Error& error);
  void Dispatch();
  bool Handle();
  void WatchForGone();
  void WatchForHangUp();

  void SendWhole(Response response, const std::vector<std::string>& notes, bool keep_alive);
  void BeginStream(std::string_view content_type, std::string_view header,
                   const std::vector<std::string>& notes);
  void Queue(std::string data);
  void EndStream();
  void WhenSent(std::function<void()> sent);
  void Flush();
  void AddUnsent(std::size_t bytes);
  void RemoveUnsent(std::size_t bytes);
  void Finish(bool keep_alive);
  void Linger();
  void Abandon();
  void CloseUnlessWithin(std::chrono::milliseconds time);
  void CloseNever();

  UntrustedStream stream_;
  boost::asio::steady_timer deadline_;
  const Peer peer_;
  const Party party_;
  const std::uint64_t accepted_ = base::TicksNow();
  SessionShared& common_;
  const ServerLimits& limits_;
  std::function<void()> on_closed_;

  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  bool closed_ = false;
  std::optional<Request> waiting_;    // for its turn; the answer has it afterwards
  std::unique_ptr<BodyClaim> claim_;  // of the request that is read or waits; nullptr: its body is small
  bool answering_ = false;
  bool keep_alive_ = false;
  bool watching_ = false;
  bool watching_hang_up_ = false;
  bool refused_ = false;  // the rest of the request is still coming and is thrown away
  std::function<void()> gone_;

  std::deque<std::string> unsent_;  // of the stream being answered
  std::size_t unsent_bytes_ = 0;    // of that stream, or of an answer that is sent whole
  std::function<void()> sent_;
  bool streaming_ = false;
  bool ending_ = false;
  bool sending_ = false;
};

}  // namespace gpuman::daemon::http
