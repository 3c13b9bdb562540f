#include "base/process_spawner.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/closer.h"

namespace gpuman::base {

void ResetSignals() {
  constexpr std::size_t kKernelSetSize = 8;
  const std::array<unsigned long, 8> defaults{};  // handler SIG_DFL, no flags, empty mask
  for (int signal = 1; signal <= 64; ++signal)
    ::syscall(SYS_rt_sigaction, signal, defaults.data(), nullptr, kKernelSetSize);
}

Result<Fd> WatchChild(pid_t child) {
  Fd watch(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (watch.ok()) return watch;
  const int error = errno;
  ::kill(child, SIGKILL);
  (void)WaitForChild(child);
  return FailSystem(error, "watching a process that was just started");
}

std::optional<int> WaitForChild(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return std::nullopt;
  return status;
}

int ShellStatus(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::vector<char*> PointersTo(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> variables;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry)
    variables.emplace_back(*entry);
  return variables;
}

ProcessSpawner::ProcessSpawner() {
  ::posix_spawn_file_actions_init(&actions_);
  ::posix_spawnattr_init(&attributes_);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&attributes_, &signals);
  ::sigfillset(&signals);
  ::posix_spawnattr_setsigdefault(&attributes_, &signals);
  ::posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

ProcessSpawner::~ProcessSpawner() {
  ::posix_spawn_file_actions_destroy(&actions_);
  ::posix_spawnattr_destroy(&attributes_);
}

void ProcessSpawner::Give(int fd, int number) { ::posix_spawn_file_actions_adddup2(&actions_, fd, number); }

void ProcessSpawner::GiveNull(int number, int flags) {
  ::posix_spawn_file_actions_addopen(&actions_, number, "/dev/null", flags, 0);
}

void ProcessSpawner::CloseFrom(int first) { ::posix_spawn_file_actions_addclosefrom_np(&actions_, first); }

void ProcessSpawner::InDirectory(const char* path) {
  ::posix_spawn_file_actions_addchdir_np(&actions_, path);
}

Result<pid_t> ProcessSpawner::Start(const char* program, char* const* arguments,
                                    char* const* environment) const {
  pid_t pid = 0;
  const CloserPause pause;
  const int error = ::posix_spawn(&pid, program, &actions_, &attributes_, arguments, environment);
  if (error != 0) return FailSystem(error, std::string("starting ") + program);
  return pid;
}

}  // namespace gpuman::base
