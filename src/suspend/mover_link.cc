#include "suspend/mover_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/passed_files.h"
#include "ledger/wire/transfer.h"
#include "suspend/handles.h"

namespace gpuman::suspend {
namespace {

namespace asio = boost::asio;
using base::ErrorCode;

// Limits on what a mover says, in bytes. An honest mover with a transfer in each of many processes says less
// than half a megabyte a second.
constexpr std::int64_t kATurn = 64 * 1024;  // after so much the loop serves other descriptors
constexpr std::int64_t kAtOnce = 1 << 20, kASecond = 2 << 20;
constexpr std::int64_t kADescriptor = 64;  // the cost of one descriptor

}  // namespace

MoverLink::MoverLink(asio::io_context& loop, asio::thread_pool& workers, std::shared_ptr<base::Closer> closer,
                     Callbacks callbacks)
    : closer_(std::move(closer)),
      callbacks_(std::move(callbacks)),
      allowance_(kAtOnce, kASecond),
      pause_(loop),
      child_(std::make_shared<base::ChildProcess>(loop, workers)),
      socket_(loop) {}

void MoverLink::Start(const MoverPaths& program, const MoverUser& user) {
  child_->Start(
      [program, user] { return SpawnMover(program, user); },
      [self = shared_from_this()](base::Result<base::Fd> socket) { self->OnSpawned(std::move(socket)); });
}

void MoverLink::OnSpawned(base::Result<base::Fd> socket) {
  if (!socket) return Gone(socket.error());
  if (stopped_) return closer_->Close(std::move(*socket));  // Stop came meanwhile; nothing was read from it
  socket_.assign(socket->Release());
  // The loop reaps the child, so its pid is still its own here.
  if (const auto id = base::IdentityOf(child_->pid()); id && callbacks_.on_started)
    callbacks_.on_started(*id);
  Read();
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
  const ssize_t got = base::ReceiveWithFiles(socket_.native_handle(), chunk_.data(), chunk_.size(), files);
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
  const auto on_answer = callbacks_.on_answer;  // the callback may stop this link
  on_answer(*answer, std::move(files));
  return cost;
}

void MoverLink::Send(const MoverRequest& request, std::span<const int> files) {
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
  // The socket is closed together with the descriptors in its unread messages.
  if (socket_.is_open()) closer_->Close(base::Fd(socket_.release()));
}

void MoverLink::Kill() {
  child_->Kill();
  Stop();
}

void MoverLink::Gone(const base::Error& error) {
  if (stopped_) return;
  const auto on_gone = std::move(callbacks_.on_gone);
  Kill();
  on_gone(error);
}

}  // namespace gpuman::suspend
