#include "daemon/notify/notifier_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/spawn_setup.h"

namespace gpuman::daemon {
namespace {

using base::FailSystem;
using base::Result;

}  // namespace

NotifierLink::NotifierLink(boost::asio::io_context& loop, boost::asio::thread_pool& workers,
                           Callbacks callbacks)
    : loop_(loop), workers_(workers), callbacks_(std::move(callbacks)), socket_(loop) {}

Result<NotifierLink::Spawned> NotifierLink::Spawn(const std::filesystem::path& program) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return FailSystem(errno, "making a socket for gpuman-notifier");
  Spawned spawned;
  spawned.socket = base::Fd(pair[0]);
  const base::Fd theirs(pair[1]);
  std::string word = program.string();
  std::vector<std::string> kept;
  for (const char* const name : {"PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"})
    if (const char* const value = ::getenv(name)) kept.push_back(fmt::format("{}={}", name, value));
  // Nothing else: proxies and the like are the configuration's.
  std::vector<char*> environment;
  environment.reserve(kept.size() + 1);
  for (auto& entry : kept) environment.push_back(entry.data());
  environment.push_back(nullptr);
  char* const words[] = {word.data(), nullptr};
  base::SpawnSetup setup;
  setup.Give(theirs.get(), notify::kNotifierSocket);
  setup.GiveNull(1, O_WRONLY);
  setup.GiveNull(2, O_WRONLY);
  setup.CloseFrom(3);
  GPUMAN_ASSIGN(spawned.pid, setup.Start(program.c_str(), words, environment.data()));
  GPUMAN_ASSIGN(spawned.process, base::WatchChild(spawned.pid));
  return spawned;
}

void NotifierLink::Start(const std::filesystem::path& program) {
  boost::asio::post(workers_, [self = shared_from_this(), program] {
    auto spawned = std::make_shared<Result<Spawned>>(Spawn(program));
    boost::asio::post(self->loop_, [self, spawned] { self->OnSpawned(std::move(*spawned)); });
  });
}

void NotifierLink::OnSpawned(Result<Spawned> spawned) {
  if (!spawned) return Gone(spawned.error());
  // Whatever becomes of this object: its end is waited for.
  auto process = std::make_shared<boost::asio::posix::stream_descriptor>(loop_, spawned->process.Release());
  process_ = process->native_handle();
  process->async_wait(
      boost::asio::posix::stream_descriptor::wait_read,
      [self = shared_from_this(), process, pid = spawned->pid](boost::system::error_code error) {
        if (error) return;
        ::waitpid(pid, nullptr, WNOHANG);
        self->process_ = -1;
      });
  socket_.assign(spawned->socket.Release());
  if (stopped_) return Stop();
  Read();
  Write();
}

void NotifierLink::Send(const notify::Order& order) {
  waiting_ += notify::Serialize(order);
  if (socket_.is_open()) Write();
}

void NotifierLink::Write() {
  if (!writing_.empty() || waiting_.empty()) return;
  writing_ = std::exchange(waiting_, {});
  boost::asio::async_write(socket_, boost::asio::buffer(writing_),
                           [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                             self->writing_.clear();
                             // That it is gone is seen where it is read from.
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
  if (process_ >= 0) (void)::syscall(SYS_pidfd_send_signal, process_, SIGKILL, nullptr, 0);
  boost::system::error_code ignored;
  socket_.close(ignored);
  callbacks_ = {};
}

}  // namespace gpuman::daemon
