#include "suspend/mover_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "ledger/wire/transfer.h"
#include "suspend/handles.h"

namespace gpuman::suspend {
namespace {

namespace asio = boost::asio;
using base::ErrorCode;

// Limits on what a mover says, in bytes. An honest mover with a transfer in each of many processes says less
// than half a megabyte a second.
constexpr std::int64_t kATurn = 64 * 1024;  // after that other descriptors have their turn
constexpr std::int64_t kAtOnce = 1 << 20, kASecond = 2 << 20;
constexpr std::int64_t kADescriptor = 64;  // the cost of one descriptor

}  // namespace

MoverLink::MoverLink(asio::io_context& loop, asio::thread_pool& workers, std::shared_ptr<base::Closer> closer,
                     Callbacks callbacks)
    : loop_(loop),
      workers_(workers),
      closer_(std::move(closer)),
      callbacks_(std::move(callbacks)),
      allowance_(kAtOnce, kASecond),
      pause_(loop),
      process_(loop),
      socket_(loop) {}

void MoverLink::Start(const MoverProgram& program, const MoverUser& user) {
  asio::post(workers_, [self = shared_from_this(), program, user] {
    auto spawned = std::make_shared<base::Result<SpawnedMover>>(SpawnMover(program, user));
    asio::post(self->loop_, [self, spawned] { self->OnSpawned(std::move(*spawned)); });
  });
}

void MoverLink::OnSpawned(base::Result<SpawnedMover> spawned) {
  if (!spawned) return Gone(spawned.error());
  pid_ = spawned->pid;
  process_.assign(spawned->process.Release());
  ReapWhenEnded();
  if (stopped_) {  // Stop came meanwhile; the socket closes here, and nothing was read from it
    closer_->Close(std::move(spawned->socket));
    if (kill_when_started_) Kill();
    return;
  }
  socket_.assign(spawned->socket.Release());
  Read();
}

void MoverLink::ReapWhenEnded() {
  process_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](const boost::system::error_code& error) {
                        if (error) return;
                        ::waitpid(self->pid_, nullptr, WNOHANG);
                        self->reaped_ = true;
                        self->process_.close();
                      });
}

void MoverLink::Read() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (error || self->stopped_) return;
                       std::int64_t heard = 0;
                       for (std::int64_t cost = 1; cost > 0 && heard < kATurn && !self->stopped_;)
                         heard += cost = self->ReadOne();
                       if (self->stopped_) return;
                       const auto pause = self->allowance_.Spend(heard, std::chrono::steady_clock::now());
                       if (pause.count() == 0) return self->Read();
                       self->pause_.expires_after(pause);
                       self->pause_.async_wait([self](const boost::system::error_code& stopped) {
                         if (!stopped && !self->stopped_) self->Read();
                       });
                     });
}

std::int64_t MoverLink::ReadOne() {
  chunk_.resize(kMaxLine);
  std::vector<base::Fd> files;
  const ssize_t got = ReceiveAll(socket_.native_handle(), chunk_.data(), chunk_.size(), files);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  const bool honest = files.size() <= ledger::wire::kMaxParts &&
                      std::all_of(files.begin(), files.end(),
                                  [](const base::Fd& file) { return CanBeDeviceMemory(file.get()); });
  if (!honest) {
    for (auto& file : files) closer_->Close(std::move(file));
    Gone({ErrorCode::kCorrupt, "gpuman-mover passed along what is no memory of a GPU"});
    return 0;
  }
  if (got <= 0) {
    Gone({ErrorCode::kUnavailable, "gpuman-mover ended"});
    return 0;
  }
  const auto cost = static_cast<std::int64_t>(got) + kADescriptor * static_cast<std::int64_t>(files.size());
  const auto answer = ParseAnswer(std::string_view(chunk_).substr(0, static_cast<std::size_t>(got)));
  if (!answer) {
    auto error = answer.error();
    Gone(std::move(error).In("reading what gpuman-mover says"));
    return 0;
  }
  const auto on_answer = callbacks_.on_answer;  // it may stop this link
  on_answer(*answer, std::move(files));
  return cost;
}

void MoverLink::Send(const Request& request, std::span<const int> files) {
  if (stopped_ || !socket_.is_open()) return;
  const std::string line = Serialize(request) + "\n";
  if (!ledger::wire::SendWith(socket_.native_handle(), line.data(), line.size(), files.data(),
                              static_cast<unsigned>(files.size()), 0))
    ::shutdown(socket_.native_handle(), SHUT_RDWR);
}

void MoverLink::Stop() {
  stopped_ = true;
  callbacks_ = {};
  pause_.cancel();
  // The descriptors that the mover has passed along and nobody has read are closed with the socket.
  if (socket_.is_open()) closer_->Close(base::Fd(socket_.release()));
}

void MoverLink::Kill() {
  kill_when_started_ = true;
  if (process_.is_open() && !reaped_)
    ::syscall(SYS_pidfd_send_signal, process_.native_handle(), SIGKILL, nullptr, 0);
  Stop();
}

void MoverLink::Gone(const base::Error& error) {
  if (stopped_) return;
  const auto on_gone = std::move(callbacks_.on_gone);
  Kill();
  on_gone(error);
}

}  // namespace gpuman::suspend
