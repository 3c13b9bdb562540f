// The job's side of terminal.h.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "api/http.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/process_spawner.h"
#include "cli/queue/terminal.h"

namespace gpuman::cli::queue {
namespace {

using base::Result;

// Removes whole frames from the front of `frames`; appends typed input to `typed`, applies window sizes.
void TakeFrames(std::string& frames, std::string& typed, int terminal) {
  constexpr std::size_t kHead = 1 + sizeof(std::uint32_t);
  std::size_t at = 0;
  while (frames.size() - at >= kHead) {
    std::uint32_t size = 0;
    std::memcpy(&size, frames.data() + at + 1, sizeof size);
    if (frames.size() - at < kHead + size) break;
    const std::string_view data(frames.data() + at + kHead, size);
    winsize window{};
    if (frames[at] == 'd') {
      typed += data;
    } else if (frames[at] == 'w' && size == sizeof window) {
      std::memcpy(&window, data.data(), sizeof window);
      ::ioctl(terminal, TIOCSWINSZ, &window);
    }
    at += kHead + size;
  }
  frames.erase(0, at);
}

// Writes as much of the text as the descriptor takes now; false: the other side is gone.
bool Pass(std::string& text, int fd) {
  const ssize_t n = ::write(fd, text.data(), text.size());
  if (n > 0) text.erase(0, static_cast<std::size_t>(n));
  return n >= 0 || errno == EAGAIN || errno == EINTR;
}

// Reads what is available; false: no more will come.
bool ReadSome(std::string& text, int fd) {
  std::array<char, 65536> buffer;
  const ssize_t n = ::read(fd, buffer.data(), buffer.size());
  if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

// Runs until the command closes its terminal, or the caller's side is gone. Typed input is read at any time,
// so that neither side waits for the other while both write.
void RelayTerminal(int connection, int terminal) {
  for (const int fd : {connection, terminal}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  std::string frames;
  std::string typed;   // that the command has not read
  std::string output;  // that the caller has not read
  for (;;) {
    const bool listens = output.empty();
    const short to_caller = listens ? POLLIN : POLLIN | POLLOUT;
    const short to_command = static_cast<short>((listens ? POLLIN : 0) | (typed.empty() ? 0 : POLLOUT));
    std::array<pollfd, 2> fds{{{connection, to_caller, 0}, {to_command != 0 ? terminal : -1, to_command, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (!listens && !Pass(output, connection)) return;
    if (!typed.empty() && (fds[1].revents & POLLOUT) != 0 && !Pass(typed, terminal)) typed.clear();
    // EIO: no process has the terminal open any more.
    if (listens && (fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !ReadSome(output, terminal))
      return;
    if (fds[0].revents != 0) {
      if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !ReadSome(frames, connection)) return;
      TakeFrames(frames, typed, terminal);
    }
  }
}

[[noreturn]] void Execute(const std::vector<std::string>& words) {
  std::vector<std::string> command(words.begin() + 1, words.end());
  ::execvp(command[0].c_str(), base::PointersTo(command).data());
  const auto text = fmt::format("gpuman: {}: {}\n", command[0], std::strerror(errno));
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(127);
}

}  // namespace

Result<int> ServeTerminal(const std::vector<std::string>& words) {
  if (words.size() < 2)
    return base::Fail(base::ErrorCode::kInvalidArgument, "there is no socket and no command");
  GPUMAN_ASSIGN(const base::Fd connection, api::ConnectTo(words.front()));
  // The caller may be gone and another user may serve a socket under its path: the job would execute that
  // user's input.
  if (api::PeerUser(connection.get()) != ::geteuid())
    return base::Fail(base::ErrorCode::kPermissionDenied,
                      fmt::format("the socket {} of this job's terminal is another user's", words.front()),
                      "run it again: `gpuman run --pty`");
  ::signal(SIGPIPE, SIG_IGN);
  int terminal_fd = -1;
  const pid_t child = ::forkpty(&terminal_fd, nullptr, nullptr, nullptr);
  if (child < 0) return base::FailSystem(errno, "making a terminal");
  if (child == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    Execute(words);
  }
  base::Fd terminal(terminal_fd);
  RelayTerminal(connection.get(), terminal.get());
  terminal = base::Fd();  // the kernel sends SIGHUP to the processes that still run on it
  return base::ShellStatus(base::WaitForChild(child).value_or(0));
}

}  // namespace gpuman::cli::queue
