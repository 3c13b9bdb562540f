// One HTTP/2 connection over a unix socket, on the event loop: frames in and out by nghttp2, bytes by Asio.
//
// What calls are made of it is the business of who derives from it (rpc_server.cc, rpc_client.cc). Lives as
// long as it reads or writes, and on; not thread-safe. The peer may send anything: frames that HTTP/2
// forbids end the connection. A client's headers are not held to HTTP's rules (http2.cc says why).
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace gpuman::kubernetes {

// nghttp2 copies both; its type is not const for those that ask it not to. They must live until it is
// submitted.
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

  // Sends the settings and reads from now on; once, after make_shared.
  void Begin();
  // No more of it; OnGone is called.
  void Close();

 protected:
  Http2Connection(Socket socket, Side side);

  nghttp2_session* session() { return session_; }
  // To be called after whatever was submitted to the session; from the calls below it does nothing, since it
  // follows them.
  void Flush();

  // Of each stream of the peer's or ours, in this order.
  virtual void OnHeader(std::int32_t stream, std::string_view name, std::string_view value) = 0;
  virtual void OnData(std::int32_t stream, std::string_view bytes) = 0;
  virtual void OnEnd(std::int32_t stream) = 0;  // the peer sends no more on it
  virtual void OnClosed(std::int32_t stream) = 0;
  virtual void OnGone() = 0;  // once: the connection is over

 private:
  struct Callbacks;
  void Read();
  bool Take(std::size_t size);  // false: what came cannot be HTTP/2
  void Write();

  Socket socket_;
  nghttp2_session* session_ = nullptr;
  std::array<std::uint8_t, 16 * 1024> in_;
  std::string out_;      // taken from the session, not written yet
  std::string writing_;  // being written; empty: nothing is
  bool inside_ = false;  // of a call of nghttp2, which may not be called again from its callbacks
  bool gone_ = false;
};

}  // namespace gpuman::kubernetes
