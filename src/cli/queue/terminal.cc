// The caller's side of terminal.h.
#include "cli/queue/terminal.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "api/ask.h"
#include "base/fd.h"
#include "base/file.h"
#include "cli/queue/when.h"
#include "cli/signal_watch.h"
#include "cli/wait.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;

constexpr int kPollMillis = 200;  // between two attempts to reach a daemon that is away

// A directory with a listening socket; only this user may enter it.
class Listener {
 public:
  static Result<Listener> Make() {
    const auto runtime = base::LookUpEnvironment("XDG_RUNTIME_DIR");
    std::string pattern = runtime.value_or("/tmp") + "/gpuman-pty-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
      pattern = "/tmp/gpuman-pty-XXXXXX";
      if (::mkdtemp(pattern.data()) == nullptr) return base::FailSystem(errno, "making a directory in /tmp");
    }
    Listener listener(pattern);
    GPUMAN_TRY(base::CheckSocketPath(listener.socket()));
    listener.fd_ = base::Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, listener.socket().c_str(), sizeof address.sun_path - 1);
    if (::bind(listener.fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener.fd_.get(), 1) != 0)
      return base::FailSystem(errno, "waiting for the job's terminal");
    return listener;
  }
  Listener(Listener&& other) noexcept : directory_(std::move(other.directory_)), fd_(std::move(other.fd_)) {
    other.directory_.clear();
  }
  Listener& operator=(Listener&&) = delete;
  ~Listener() {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }

  std::string socket() const { return directory_ + "/s"; }
  int fd() const { return fd_.get(); }

 private:
  explicit Listener(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
  base::Fd fd_;
};

// Puts the terminal in raw mode, until it is destroyed: the terminal passes every key on.
class RawTerminal {
 public:
  RawTerminal() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    ::cfmakeraw(&raw);
    set_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal() {
    if (set_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }

 private:
  termios before_{};
  bool set_ = false;
};

// Copies between the caller's terminal and the job's connection; the owner calls HandleReady.
class Relay {
 public:
  Relay(CommandContext& session, const Listener& listener, std::function<void(int)> interrupted)
      : session_(session), listener_(listener), interrupted_(std::move(interrupted)) {
    epoll_ = base::Fd(::epoll_create1(EPOLL_CLOEXEC));
    Watch(listener_.fd());
    Watch(signals_.fd());
  }

  int fd() const { return epoll_.get(); }

  void HandleReady() {
    std::array<epoll_event, 4> events;
    const int n = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == listener_.fd())
        Accept();
      else if (fd == signals_.fd())
        HandleSignal();
      else if (fd == STDIN_FILENO)
        PassInput();
      else if (connection_.ok())
        PassOutput();
    }
  }

  // Whether the job has connected.
  bool connected() const { return connection_.ok(); }

  // Passes on the last output of the job; the job has ended, so the other side closes. It may have connected
  // and closed before Accept.
  void Drain() {
    Accept();
    while (connection_.ok()) PassOutput();
    raw_.reset();
  }

 private:
  void Watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void Accept() {
    base::Fd peer(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer.ok() || connection_.ok() || api::PeerUser(peer.get()) != ::getuid()) return;
    connection_ = std::move(peer);
    Watch(connection_.get());
    Watch(STDIN_FILENO);
    raw_.emplace();
    SendSize();
  }

  void HandleSignal() {
    const int signal = signals_.Take();
    if (signal == SIGWINCH)
      SendSize();
    else if (signal != 0)
      interrupted_(signal);
  }

  void Send(char kind, const void* data, std::uint32_t size) {
    std::string frame(1, kind);
    frame.append(reinterpret_cast<const char*>(&size), sizeof size);
    frame.append(static_cast<const char*>(data), size);
    // The output that the other side wrote before it closed must still be read.
    if (connection_.ok() && ::send(connection_.get(), frame.data(), frame.size(), MSG_NOSIGNAL) < 0)
      IgnoreInput();
  }

  void SendSize() {
    winsize size{};
    if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) Send('w', &size, sizeof size);
  }

  void PassInput() {
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n > 0)
      Send('d', buffer.data(), static_cast<std::uint32_t>(n));
    else
      IgnoreInput();
  }

  void IgnoreInput() { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, STDIN_FILENO, nullptr); }

  void PassOutput() {
    std::array<char, 65536> buffer;
    const ssize_t n = ::read(connection_.get(), buffer.data(), buffer.size());
    if (n <= 0) return Close();
    session_.PrintOutput(std::string_view(buffer.data(), static_cast<std::size_t>(n)));
    session_.Flush();
  }

  void Close() {
    connection_ = base::Fd();
    IgnoreInput();
    raw_.reset();
  }

  CommandContext& session_;
  const Listener& listener_;
  std::function<void(int)> interrupted_;
  SignalWatch signals_{SIGWINCH, SIGINT, SIGTERM, SIGHUP};
  base::Fd epoll_;
  base::Fd connection_;
  std::optional<RawTerminal> raw_;
};

}  // namespace

Result<int> RunOnTerminal(CommandContext& session, const api::Client& daemon, api::SubmitRequest request) {
  GPUMAN_ASSIGN(const Listener listener, Listener::Make());
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return base::Fail(base::SystemError(error.value(), "finding this program"));
  auto& command = request.jobs.front().command;
  command.insert(command.begin(), {self.string(), kTerminalWord, listener.socket()});
  GPUMAN_ASSIGN(const auto answer, api::AskWithoutTimeout(daemon, api::routes::kSubmit, {}, request));
  for (const auto& note : answer.notes) session.Note(note);
  const auto& first = answer.jobs.front();
  const std::string id = std::to_string(first.id);
  if (first.state == spec::JobState::kQueued && first.reason)
    session.Note(fmt::format("job {} waits: {}", first.id,
                             WithLocalTimes(first.reason_detail.value_or(*first.reason))));

  int last_signal = 0;
  Relay relay(session, listener, [&](int signal) {
    last_signal = signal;
    if (!api::AskWithoutTimeout(daemon, api::routes::kCancelJob, {{id}}))
      session.Note(fmt::format("job {} cannot be cancelled", first.id));
  });
  api::WaitCancellation wake;
  wake.fd = relay.fd();
  wake.on_wake = [&] {
    relay.HandleReady();
    return true;
  };
  auto waited = daemon.Wait(id, wake);
  while (!waited) {
    // The session continues while no daemon runs; only the daemon can tell the exit status.
    while (relay.connected() && waited.error().code == ErrorCode::kUnavailable && !session.RunningDaemon())
      if (pollfd ready{wake.fd, POLLIN, 0}; ::poll(&ready, 1, kPollMillis) == 1) relay.HandleReady();
    GPUMAN_ASSIGN(const api::Client next, NextDaemon(session, waited.error(), wake));
    waited = next.Wait(id, wake);
  }
  const api::JobView& ended = *waited;
  relay.Drain();
  if (ended.state == spec::JobState::kCancelled && last_signal != 0) return 128 + last_signal;
  if (ended.state != spec::JobState::kFinished && ended.reason_detail)
    session.Note(WithLocalTimes(*ended.reason_detail));
  TellNotes(session, ended);
  return ExitStatusOfJob(ended);
}

}  // namespace gpuman::cli::queue
