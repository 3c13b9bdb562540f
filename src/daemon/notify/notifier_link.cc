#include "daemon/notify/notifier_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/process_spawner.h"

namespace gpuman::daemon {
namespace {

using base::FailSystem;
using base::Result;

Result<base::SpawnedChild> SpawnNotifier(const std::filesystem::path& program) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return FailSystem(errno, "making a socket for gpuman-notifier");
  base::SpawnedChild spawned;
  spawned.socket = base::Fd(pair[0]);
  const base::Fd theirs(pair[1]);
  std::string word = program.string();
  std::vector<std::string> kept;
  for (const char* const name : {"PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"})
    if (const char* const value = ::getenv(name)) kept.push_back(fmt::format("{}={}", name, value));
  // No other variables are passed on: the configuration sets proxies and the like.
  char* const words[] = {word.data(), nullptr};
  base::ProcessSpawner setup;
  setup.Give(theirs.get(), notify::kNotifierSocket);
  setup.GiveNull(1, O_WRONLY);
  setup.GiveNull(2, O_WRONLY);
  setup.CloseFrom(3);
  GPUMAN_ASSIGN(spawned.pid, setup.Start(program.c_str(), words, base::PointersTo(kept).data()));
  GPUMAN_ASSIGN(spawned.process, base::WatchChild(spawned.pid));
  return spawned;
}

}  // namespace

NotifierLink::NotifierLink(boost::asio::io_context& loop, boost::asio::thread_pool& workers,
                           Callbacks callbacks)
    : callbacks_(std::move(callbacks)),
      child_(std::make_shared<base::ChildProcess>(loop, workers)),
      socket_(loop) {}

void NotifierLink::Start(const std::filesystem::path& program) {
  child_->Start([program] { return SpawnNotifier(program); },
                [self = shared_from_this()](Result<base::Fd> socket) { self->OnSpawned(std::move(socket)); });
}

void NotifierLink::OnSpawned(Result<base::Fd> socket) {
  if (!socket) return Gone(socket.error());
  if (stopped_) return;
  socket_.assign(socket->Release());
  Read();
  Write();
}

void NotifierLink::Send(const notify::DeliveryRequest& order) {
  waiting_ += notify::Serialize(order);
  if (socket_.is_open()) Write();
}

void NotifierLink::Write() {
  if (!writing_.empty() || waiting_.empty()) return;
  writing_ = std::exchange(waiting_, {});
  boost::asio::async_write(socket_, boost::asio::buffer(writing_),
                           [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                             self->writing_.clear();
                             // Read notices that the notifier is gone.
                             if (!error && !self->stopped_) self->Write();
                           });
}

void NotifierLink::Read() {
  socket_.async_read_some(boost::asio::buffer(chunk_), [self = shared_from_this()](
                                                           boost::system::error_code error, std::size_t got) {
    if (self->stopped_) return;
    if (error) return self->Gone({base::ErrorCode::kUnavailable, "gpuman-notifier has ended"});
    self->read_.append(self->chunk_.data(), got);
    for (std::string line; !self->stopped_ && notify::TakeLine(self->read_, line);) {
      const auto report = notify::ParseReport(line);
      if (!report) return self->Gone(report.error());
      self->callbacks_.on_report(*report);
    }
    if (self->stopped_) return;
    if (self->read_.size() > notify::kLongestLine)
      return self->Gone({base::ErrorCode::kCorrupt, "gpuman-notifier writes a line without end"});
    self->Read();
  });
}

void NotifierLink::Gone(const base::Error& error) {
  if (stopped_) return;
  const auto on_gone = callbacks_.on_gone;
  Stop();
  on_gone(error);
}

void NotifierLink::Stop() {
  stopped_ = true;
  child_->Kill();
  boost::system::error_code ignored;
  socket_.close(ignored);
  callbacks_ = {};
}

}  // namespace gpuman::daemon
