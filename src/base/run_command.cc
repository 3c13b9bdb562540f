#include "base/run_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>

#include "base/fd.h"
#include "base/process_spawner.h"

namespace gpuman::base {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t kMaxOutput = std::size_t{1} << 20;

Result<pid_t> Spawn(const ProgramRunRequest& command, int input, int output) {
  std::vector<std::string> words{command.program.string()}, environment = command.environment;
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  const auto argv = PointersTo(words);
  const auto envp = PointersTo(environment);
  ProcessSpawner setup;
  setup.Give(input, STDIN_FILENO);
  setup.Give(output, STDOUT_FILENO);
  setup.Give(output, STDERR_FILENO);
  setup.CloseFrom(3);
  return setup.Start(command.program.c_str(), argv.data(), envp.data());
}

// Reads until `pid` has ended and its output has been read, or until `until`.
std::optional<int> Collect(pid_t pid, int ours, Steady::time_point until, std::string& output) {
  constexpr int kStep = 5;  // ms: a program in the background may keep its end of the pipe open
  std::array<char, 4096> buffer{};
  for (std::optional<int> ended; Steady::now() < until;) {
    pollfd wait{ours, POLLIN, 0};
    ::poll(&wait, 1, ended ? 0 : kStep);
    const auto got = ::read(ours, buffer.data(), buffer.size());
    if (got > 0) {
      output.append(buffer.data(), std::min(static_cast<std::size_t>(got), kMaxOutput - output.size()));
      continue;
    }
    if (ended) return ended;
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid)
      ended = ShellStatus(status);
    else if (got == 0)
      ::poll(nullptr, 0, kStep);  // the program has closed its output and still runs
  }
  return std::nullopt;
}

// Moves the descriptor above the numbers that the child uses.
Result<Fd> Above(int fd) {
  Fd high(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  ::close(fd);
  if (!high.ok()) return FailSystem(errno, "duplicating a descriptor");
  return high;
}

}  // namespace

Result<ProgramResult> RunCommand(const ProgramRunRequest& command) {
  // The input is a socket: a program that does not read it cannot end this process by SIGPIPE. The output is
  // a pipe: Slurm's programs do not write their errors to a socket.
  std::array<int, 2> input{}, output{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input.data()) != 0)
    return FailSystem(errno, "making a socket");
  const Fd to(input[0]);
  GPUMAN_ASSIGN(Fd their_input, Above(input[1]));
  if (::pipe2(output.data(), O_CLOEXEC) != 0) return FailSystem(errno, "making a pipe");
  const Fd from(output[0]);
  GPUMAN_ASSIGN(Fd their_output, Above(output[1]));
  ::fcntl(from.get(), F_SETFL, O_NONBLOCK);
  GPUMAN_ASSIGN(const pid_t pid, Spawn(command, their_input.get(), their_output.get()));
  their_input.Close();
  their_output.Close();
  (void)::send(to.get(), command.input.data(), command.input.size(), MSG_NOSIGNAL);
  ::shutdown(to.get(), SHUT_WR);
  ProgramResult finished;
  const auto status = Collect(pid, from.get(), Steady::now() + command.limit, finished.output);
  if (!status) {
    ::kill(pid, SIGKILL);
    (void)WaitForChild(pid);
    return Fail(ErrorCode::kTimeout,
                fmt::format("{} took longer than {}", command.program.filename().string(),
                            FormatDuration(command.limit)));
  }
  finished.status = *status;
  return finished;
}

}  // namespace gpuman::base
