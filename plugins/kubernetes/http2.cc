#include "plugins/kubernetes/http2.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>
#include <utility>

namespace gpuman::kubernetes {
namespace {

constexpr std::size_t kUnwritten = 256 * 1024;  // bytes that may wait for the socket
constexpr std::uint32_t kStreams = 128;         // of a peer at the same time; kubelet has a few
constexpr std::uint32_t kWindow = 1 << 20;

std::string_view View(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

struct Http2Connection::Callbacks {
  static Http2Connection& Self(void* user) { return *static_cast<Http2Connection*>(user); }
  static int Header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t,
                    void* user) {
    Self(user).OnHeader(frame->hd.stream_id, View(name, name_size), View(value, value_size));
    return 0;
  }
  static int Data(nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* bytes,
                  std::size_t size, void* user) {
    Self(user).OnData(stream, View(bytes, size));
    return 0;
  }
  static int Frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    const bool carries = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (carries && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) Self(user).OnEnd(frame->hd.stream_id);
    return 0;
  }
  static int Closed(nghttp2_session*, std::int32_t stream, std::uint32_t, void* user) {
    Self(user).OnClosed(stream);
    return 0;
  }
};

Http2Connection::Http2Connection(Socket socket, Side side) : socket_(std::move(socket)) {
  nghttp2_session_callbacks* callbacks = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0) std::abort();  // out of memory
  nghttp2_session_callbacks_set_on_header_callback(callbacks, &Callbacks::Header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &Callbacks::Data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &Callbacks::Frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &Callbacks::Closed);
  nghttp2_option* options = nullptr;
  if (nghttp2_option_new(&options) != 0) std::abort();
  // A kubelet with an older gRPC (Kubernetes 1.20 has gRPC 1.27) sends the socket's path as :authority, which
  // HTTP does not allow: nghttp2 would reset its calls. It still checks that frames follow HTTP/2.
  nghttp2_option_set_no_http_messaging(options, side == Side::kServer ? 1 : 0);
  const auto make = side == Side::kServer ? &nghttp2_session_server_new2 : &nghttp2_session_client_new2;
  const int made = make(&session_, callbacks, this, options);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(callbacks);
  if (made != 0) std::abort();
}

Http2Connection::~Http2Connection() { nghttp2_session_del(session_); }

void Http2Connection::Begin() {
  const std::array<nghttp2_settings_entry, 2> settings = {
      {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kStreams}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindow}}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  Flush();
  Read();
}

void Http2Connection::Read() {
  socket_.async_read_some(boost::asio::buffer(in_), [this, self = shared_from_this()](
                                                        boost::system::error_code error, std::size_t size) {
    if (gone_) return;
    if (error || !Take(size)) return Close();
    Flush();
    if (!gone_) Read();
  });
}

bool Http2Connection::Take(std::size_t size) {
  inside_ = true;
  const auto taken = nghttp2_session_mem_recv(session_, in_.data(), size);
  inside_ = false;
  return taken >= 0;
}

void Http2Connection::Flush() {
  if (gone_ || inside_) return;
  while (out_.size() < kUnwritten) {
    const std::uint8_t* bytes = nullptr;
    inside_ = true;
    const auto size = nghttp2_session_mem_send(session_, &bytes);
    inside_ = false;
    if (size < 0) return Close();
    if (size == 0) break;
    out_.append(View(bytes, static_cast<std::size_t>(size)));
  }
  if (writing_.empty() && !out_.empty()) return Write();
  const bool over = !nghttp2_session_want_read(session_) && !nghttp2_session_want_write(session_);
  if (over && writing_.empty()) Close();
}

void Http2Connection::Write() {
  writing_.swap(out_);
  boost::asio::async_write(socket_, boost::asio::buffer(writing_),
                           [this, self = shared_from_this()](boost::system::error_code error, std::size_t) {
                             writing_.clear();
                             if (gone_) return;
                             if (error) return Close();
                             Flush();
                           });
}

void Http2Connection::Close() {
  if (std::exchange(gone_, true)) return;
  boost::system::error_code ignored;
  socket_.close(ignored);
  OnGone();
}

}  // namespace gpuman::kubernetes
