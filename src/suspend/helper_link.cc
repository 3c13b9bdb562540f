#include "suspend/helper_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

namespace gpuman::suspend {
namespace {

namespace asio = boost::asio;
using base::ErrorCode;
using base::Fail;

}  // namespace

HelperLink::HelperLink(asio::io_context& loop, asio::thread_pool& workers, Callbacks callbacks)
    : loop_(loop), workers_(workers), callbacks_(std::move(callbacks)), process_(loop), socket_(loop) {}

void HelperLink::Start(const HelperProgram& program, const HelperUser& user) {
  asio::post(workers_, [self = shared_from_this(), program, user] {
    auto spawned = std::make_shared<base::Result<SpawnedHelper>>(SpawnHelper(program, user));
    asio::post(self->loop_, [self, spawned] { self->OnSpawned(std::move(*spawned)); });
  });
}

void HelperLink::OnSpawned(base::Result<SpawnedHelper> spawned) {
  if (!spawned) return Gone(std::move(spawned.error()));
  pid_ = spawned->pid;
  process_.assign(spawned->process.Release());
  ReapWhenEnded();
  if (stopped_) {  // meanwhile; its socket closes here
    if (kill_when_started_) Kill();
    return;
  }
  socket_.assign(spawned->socket.Release());
  Read();
}

void HelperLink::ReapWhenEnded() {
  process_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](const boost::system::error_code& error) {
                        if (error) return;
                        ::waitpid(self->pid_, nullptr, WNOHANG);
                        self->reaped_ = true;
                        self->process_.close();
                      });
}

void HelperLink::Read() {
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this()](const boost::system::error_code& error, std::size_t n) {
                            if (self->stopped_) return;
                            if (error)
                              return self->Gone({ErrorCode::kUnavailable, "gpuman-checkpoint ended"});
                            self->OnRead(n);
                          });
}

void HelperLink::OnRead(std::size_t bytes) {
  buffer_.append(chunk_.data(), bytes);
  for (auto newline = buffer_.find('\n'); newline != std::string::npos; newline = buffer_.find('\n')) {
    const auto answer = ParseAnswer(std::string_view(buffer_).substr(0, newline));
    if (!answer) {
      auto error = answer.error();
      return Gone(std::move(error).In("reading what gpuman-checkpoint says"));
    }
    buffer_.erase(0, newline + 1);
    const auto on_answer = callbacks_.on_answer;  // which may stop this link
    on_answer(*answer);
    if (stopped_) return;
  }
  if (buffer_.size() > kMaxLine) return Gone({ErrorCode::kCorrupt, "gpuman-checkpoint writes without end"});
  Read();
}

void HelperLink::Send(const Request& request) {
  if (stopped_ || !socket_.is_open()) return;
  // At most one request is on its way, which fits into any socket's buffer.
  const std::string line = Serialize(request) + "\n";
  const ssize_t n = ::send(socket_.native_handle(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n != static_cast<ssize_t>(line.size())) ::shutdown(socket_.native_handle(), SHUT_RDWR);
}

void HelperLink::Stop() {
  stopped_ = true;
  callbacks_ = {};
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void HelperLink::Kill() {
  kill_when_started_ = true;
  if (process_.is_open() && !reaped_)
    ::syscall(SYS_pidfd_send_signal, process_.native_handle(), SIGKILL, nullptr, 0);
  Stop();
}

void HelperLink::Gone(base::Error error) {
  if (stopped_) return;
  const auto on_gone = std::move(callbacks_.on_gone);
  Kill();
  on_gone(error);
}

}  // namespace gpuman::suspend
