#include "web/relay.h"

#include <string>

#include "api/http.h"
#include "api/types.h"

namespace gpuman::web {
namespace {

Headers HeadersOf(std::string_view content_type, const Headers& more = {}) {
  Headers headers = CommonHeaders();
  headers.insert(headers.end(), more.begin(), more.end());
  headers.emplace_back("Content-Type", content_type);
  return headers;
}

}  // namespace

bool Refuse(Connection& connection, const Refusal& refusal) {
  return connection.Send(refusal.status, HeadersOf("application/json"), BodyOf(refusal));
}

bool Relay(const std::filesystem::path& daemon, const Request& request, Connection& connection) {
  bool begun = false, sent = true;
  api::HttpOptions options;
  Headers notes;
  options.take_note = [&](std::string_view note) { notes.emplace_back(api::kNoteHeader, note); };
  options.header = "Content-Type";
  options.take_header = [&](std::string_view type) {
    begun = true;
    sent = connection.BeginStream(200, HeadersOf(type, notes));
  };
  options.sink = [&](std::string_view piece) {
    if (!begun) options.take_header("application/octet-stream");
    return sent = sent && connection.Write(piece);
  };
  options.patience.reset();  // the page says how long it waits
  options.wake_fd = connection.fd();
  options.on_wake = [] { return false; };  // the browser has gone
  const auto answer = api::Exchange(daemon, {request.method, request.target, request.body}, options);
  if (begun) return sent && answer && connection.EndStream();
  if (answer) return connection.Send(answer->status, HeadersOf("application/json"), answer->body);
  const bool gone = answer.error().code == base::ErrorCode::kConflict;
  return !gone && Refuse(connection, {503, answer.error().message, answer.error().hint});
}

}  // namespace gpuman::web
