#include "suspend/helper_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "ledger/wire/transfer.h"

namespace gpuman::suspend {
namespace {

namespace asio = boost::asio;
using base::ErrorCode;

// Then others have their turn: it is its user's process, and may say something all the time.
constexpr int kMostATurn = 64;

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
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       for (int i = 0; i < kMostATurn && !error && !self->stopped_ && self->ReadOne(); ++i) {
                       }
                       if (!error && !self->stopped_) self->Read();
                     });
}

bool HelperLink::ReadOne() {
  chunk_.resize(kMaxLine);
  std::array<int, ledger::wire::kMostParts> numbers{};
  unsigned count = 0;
  const ssize_t got = ledger::wire::ReceiveWith(socket_.native_handle(), chunk_.data(), chunk_.size(),
                                                numbers.data(), count, 0);
  std::vector<base::Fd> files;
  for (unsigned i = 0; i < count; ++i) files.emplace_back(numbers[i]);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (got <= 0) {
    Gone({ErrorCode::kUnavailable, "gpuman-mover ended"});
    return false;
  }
  const auto answer = ParseAnswer(std::string_view(chunk_).substr(0, static_cast<std::size_t>(got)));
  if (!answer) {
    auto error = answer.error();
    Gone(std::move(error).In("reading what gpuman-mover says"));
    return false;
  }
  const auto on_answer = callbacks_.on_answer;  // which may stop this link
  on_answer(*answer, std::move(files));
  return true;
}

void HelperLink::Send(const Request& request, std::span<const int> files) {
  if (stopped_ || !socket_.is_open()) return;
  const std::string line = Serialize(request) + "\n";
  if (!ledger::wire::SendWith(socket_.native_handle(), line.data(), line.size(), files.data(),
                              static_cast<unsigned>(files.size()), 0))
    ::shutdown(socket_.native_handle(), SHUT_RDWR);
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
