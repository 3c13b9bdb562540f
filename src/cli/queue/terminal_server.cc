// The job's side of terminal.h.
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "api/http.h"
#include "base/fd.h"
#include "base/file.h"
#include "cli/queue/terminal.h"

namespace gpuman::cli::queue {
namespace {

using base::Result;

// Takes the frames that are whole off the front of `pending`.
void TakeFrames(std::string& pending, int terminal) {
  constexpr std::size_t kHead = 1 + sizeof(std::uint32_t);
  while (pending.size() >= kHead) {
    std::uint32_t size = 0;
    std::memcpy(&size, pending.data() + 1, sizeof size);
    if (pending.size() < kHead + size) return;
    const std::string_view data(pending.data() + kHead, size);
    winsize window{};
    if (pending[0] == 'd') {
      (void)base::WriteAll(terminal, data);
    } else if (pending[0] == 'w' && size == sizeof window) {
      std::memcpy(&window, data.data(), sizeof window);
      ::ioctl(terminal, TIOCSWINSZ, &window);
    }
    pending.erase(0, kHead + size);
  }
}

// Until the command closes its terminal, or the caller's side is gone.
void Relay(int connection, int terminal) {
  std::string pending;
  std::array<char, 65536> buffer;
  for (;;) {
    std::array<pollfd, 2> fds{{{connection, POLLIN, 0}, {terminal, POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (fds[1].revents != 0) {
      const ssize_t n = ::read(terminal, buffer.data(), buffer.size());
      if (n <= 0) return;  // EIO: no process has it open any more
      if (!base::WriteAll(connection, {buffer.data(), static_cast<std::size_t>(n)})) return;
    } else if (fds[0].revents != 0) {
      const ssize_t n = ::read(connection, buffer.data(), buffer.size());
      if (n <= 0) return;
      pending.append(buffer.data(), static_cast<std::size_t>(n));
      TakeFrames(pending, terminal);
    }
  }
}

[[noreturn]] void Execute(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (std::size_t i = 1; i < words.size(); ++i) argv.push_back(const_cast<char*>(words[i].c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const auto text = fmt::format("gpuman: {}: {}\n", words[1], std::strerror(errno));
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(127);
}

}  // namespace

Result<int> ServeTerminal(const std::vector<std::string>& words) {
  if (words.size() < 2)
    return base::Fail(base::ErrorCode::kInvalidArgument, "there is no socket and no command");
  GPUMAN_ASSIGN(const base::Fd connection, api::ConnectTo(words.front()));
  ::signal(SIGPIPE, SIG_IGN);
  int terminal_fd = -1;
  const pid_t child = ::forkpty(&terminal_fd, nullptr, nullptr, nullptr);
  if (child < 0) return base::FailSystem(errno, "making a terminal");
  if (child == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    Execute(words);
  }
  base::Fd terminal(terminal_fd);
  Relay(connection.get(), terminal.get());
  terminal = base::Fd();  // the kernel hangs up what still runs on it
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace gpuman::cli::queue
