// StartUserDaemon of find_daemon.h.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include "api/http.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/process_spawner.h"
#include "cli/find_daemon.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(20);
// Between bind() and listen() the socket exists and refuses connections: no event reports the listen().
constexpr int kRetryMillis = 5;

// Held while one of several processes starts the daemon; the kernel releases it when the descriptor closes.
base::Result<base::Fd> LockStart(const std::filesystem::path& folder) {
  GPUMAN_ASSIGN(base::Fd fd, base::OpenFile(folder / "start.lock", O_RDWR | O_CREAT, 0600));
  while (::flock(fd.get(), LOCK_EX) != 0)
    if (errno != EINTR) return base::FailSystem(errno, "locking the start of gpumand");
  return fd;
}

bool Serves(const std::filesystem::path& socket) { return api::ConnectTo(socket).has_value(); }

// The file for the daemon's output: in the state directory, or beside the socket where there is none.
struct LogFile {
  std::filesystem::path path;
  base::Fd fd;
};
base::Result<LogFile> OpenLog(const std::filesystem::path& state, const std::filesystem::path& runtime) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND;
  auto path = state / "gpumand.log";
  auto made = base::MakeDirectories(state, 0700);
  auto fd = made ? base::OpenFile(path, kFlags, 0600) : base::Fail(made.error());
  if (!fd) {
    path = runtime / "gpumand.log";
    fd = base::OpenFile(path, kFlags, 0600);
  }
  if (!fd) return base::Fail(std::move(fd.error()));
  constexpr off_t kMaxBytes = 1 << 20;
  struct stat info {};
  if (::fstat(fd->get(), &info) == 0 && info.st_size > kMaxBytes) {
    ::rename(path.c_str(), (path.string() + ".1").c_str());
    GPUMAN_ASSIGN(*fd, base::OpenFile(path, kFlags, 0600));
  }
  return LogFile{path, std::move(*fd)};
}

// The last line with text that was added to the log since `from`.
std::string LastLine(const LogFile& log, off_t from) {
  auto text = base::ReadFile(log.path).value_or("");
  text.erase(0, std::min(text.size(), static_cast<std::size_t>(from)));
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// The environment of this process for the daemon, which runs in "/": relative paths in it become absolute
// ones.
std::vector<std::string> EnvironmentOfDaemon() {
  auto words = base::OwnEnvironment();
  for (const std::string_view name : {"GPUMAN_CONFIG=", "GPUMAN_STATE_DIR="})
    for (std::string& word : words)
      if (word.starts_with(name) && word.size() > name.size())
        word = std::string(name) + std::filesystem::absolute(word.substr(name.size())).string();
  return words;
}

base::Result<pid_t> Spawn(const std::filesystem::path& program, const LogFile& log) {
  base::ProcessSpawner setup;
  setup.GiveNull(0, O_RDONLY);
  setup.Give(log.fd.get(), 1);
  setup.Give(log.fd.get(), 2);
  // A pipe of the calling shell must not stay open for as long as the daemon lives.
  setup.CloseFrom(3);
  setup.InDirectory("/");
  std::vector<std::string> arguments{program.string(), "--user"};
  std::vector<std::string> environment = EnvironmentOfDaemon();
  return setup.Start(program.c_str(), base::PointersTo(arguments).data(),
                     base::PointersTo(environment).data());
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("exited with {}", WEXITSTATUS(status));
}

// Waits until the daemon serves the socket, ends, or the time is up. `watch` reports changes of the folder
// since before the daemon was started.
base::Result<> AwaitDaemon(const std::filesystem::path& socket, pid_t pid, const base::Fd& watch,
                           const std::function<std::string()>& last_line) {
  const base::Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const auto deadline = Clock::now() + kPatience;
  while (!Serves(socket)) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid)
      return base::Fail(ErrorCode::kUnavailable,
                        fmt::format("gpumand --user {}: {}", HowItEnded(status), last_line()));
    if (Clock::now() >= deadline)
      return base::Fail(
          ErrorCode::kTimeout,
          fmt::format("gpumand --user (pid {}) was started but does not serve {}", pid, socket.string()));
    std::error_code ignored;
    const bool is_there = std::filesystem::exists(socket, ignored);
    std::array<pollfd, 2> fds{{{watch.get(), POLLIN, 0}, {process.get(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), is_there || !process.ok() ? kRetryMillis : 1000);
    std::array<char, 4096> events;
    while (::read(watch.get(), events.data(), events.size()) > 0) {
    }
  }
  return {};
}

}  // namespace

base::Result<> StartUserDaemon(const std::filesystem::path& socket,
                               const base::EnvironmentLookup& environment,
                               const std::function<void(std::string_view)>& say) {
  const auto runtime = socket.parent_path();
  GPUMAN_TRY(base::MakePrivateDirectory(runtime));
  GPUMAN_ASSIGN(const base::Fd lock, LockStart(runtime));
  if (Serves(socket)) return {};  // another process started it while this one waited for the lock

  GPUMAN_ASSIGN(const auto program, FindProgram("gpumand", environment));
  const auto state = environment("GPUMAN_STATE_DIR");
  GPUMAN_ASSIGN(const LogFile log,
                OpenLog(state ? std::filesystem::path(*state) : base::UserPaths().state, runtime));
  const off_t log_end = ::lseek(log.fd.get(), 0, SEEK_END);
  const base::Fd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ::inotify_add_watch(watch.get(), runtime.c_str(), IN_CREATE | IN_MOVED_TO | IN_ATTRIB);

  GPUMAN_ASSIGN(const pid_t pid, Spawn(program, log));
  auto served = AwaitDaemon(socket, pid, watch, [&] { return LastLine(log, log_end); });
  if (!served) {
    served.error().hint = fmt::format("its log is {}", log.path.string());
    return served;
  }
  say(fmt::format("no daemon was running; started gpumand --user (pid {}, log {})", pid, log.path.string()));
  return {};
}

}  // namespace gpuman::cli
