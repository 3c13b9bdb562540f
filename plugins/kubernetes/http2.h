// One HTTP/2 connection over a unix socket, on the event loop: nghttp2 handles frames, Asio the bytes.
//
// Derived classes implement the calls (rpc_server.cc, rpc_client.cc). The object keeps itself alive while it
// reads or writes; not thread-safe. The peer may send anything: frames that HTTP/2 forbids end the
// connection. A client's headers need not follow HTTP's rules (http2.cc says why).
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace gpuman::kubernetes {

// nghttp2 copies both texts; nghttp2_nv is not const because callers may ask nghttp2 not to copy. The texts
// must live until the headers are submitted.
inline nghttp2_nv Header(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

class Http2Connection : public std::enable_shared_from_this<Http2Connection> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;
  enum class Side { kServer, kClient };

  virtual ~Http2Connection();
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  // Sends the settings and starts reading; call it once, after make_shared.
  void Begin();
  // Ends the connection; calls OnGone.
  void Close();

 protected:
  Http2Connection(Socket socket, Side side);

  nghttp2_session* session() { return session_; }
  // Writes what was submitted to the session; call it after each submission. Flush does nothing within the
  // calls below, since the connection flushes after each of them.
  void Flush();

  // The connection makes these calls for each stream, in this order; either side may have opened the stream.
  virtual void OnHeader(std::int32_t stream, std::string_view name, std::string_view value) = 0;
  virtual void OnData(std::int32_t stream, std::string_view bytes) = 0;
  virtual void OnEnd(std::int32_t stream) = 0;  // the peer sends no more on this stream
  virtual void OnClosed(std::int32_t stream) = 0;
  virtual void OnGone() = 0;  // once: the connection is over

 private:
  struct Callbacks;
  void Read();
  bool Take(std::size_t size);  // false: the bytes are not HTTP/2
  void Write();

  Socket socket_;
  nghttp2_session* session_ = nullptr;
  std::array<std::uint8_t, 16 * 1024> in_;
  std::string out_;      // taken from the session, not yet written
  std::string writing_;  // being written; empty: no write is in progress
  bool inside_ = false;  // a call of nghttp2 is running, so callbacks must not call nghttp2 again
  bool gone_ = false;
};

}  // namespace gpuman::kubernetes
