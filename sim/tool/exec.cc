#include "sim/tool/exec.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/process.h"
#include "sim/tool/bus_speeds.h"
#include "sim/tool/library_dir.h"

namespace gpuman::sim {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

// The directory of the machine; a temporary one is removed with its content at the end.
class MachineDirectory {
 public:
  static Result<MachineDirectory> Make(const std::string& wanted) {
    if (!wanted.empty()) {
      std::error_code error;
      std::filesystem::create_directories(wanted, error);
      if (error) return base::FailSystem(error.value(), "making directory " + wanted);
      return MachineDirectory(std::filesystem::absolute(wanted).string(), false);
    }
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    for (const char* parent : {runtime, "/dev/shm", "/tmp"}) {
      if (parent == nullptr || *parent == '\0') continue;
      std::string path = std::string(parent) + "/gpuman-sim-XXXXXX";
      if (::mkdtemp(path.data()) != nullptr) return MachineDirectory(path, true);
    }
    return base::FailSystem(errno, "making a directory for the simulated machine in /tmp");
  }
  MachineDirectory(MachineDirectory&& other) noexcept
      : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, false)) {}
  MachineDirectory& operator=(MachineDirectory&&) = delete;
  ~MachineDirectory() {
    std::error_code ignored;
    if (temporary_) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  bool temporary() const { return temporary_; }

 private:
  MachineDirectory(std::string path, bool temporary) : path_(std::move(path)), temporary_(temporary) {}
  std::string path_;
  bool temporary_;
};

Result<State> MakeOrOpen(const MachineDirectory& directory, const CreateOptions& options) {
  const bool there = std::filesystem::exists(std::filesystem::path(directory.path()) / "state");
  auto state = there ? State::Open(directory.path()) : State::Create(directory.path(), options);
  if (!state) return Fail(ErrorCode::kInvalidArgument, state.error());
  return std::move(*state);
}

sigset_t WaitedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    sigaddset(&set, signal);
  return set;
}

// Runs in the child: executes the command, or prints the message and returns the status of a shell.
[[noreturn]] void Become(const std::vector<std::string>& command, const sigset_t& mask) {
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int number = errno;
  const std::string message = "gpuman-sim: " + command[0] + ": " + std::strerror(number) + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  ::_exit(number == ENOENT ? 127 : 126);
}

// Passes signals on until the command ends; reaps other children meanwhile.
int WaitFor(pid_t child, const sigset_t& waited) {
  for (;;) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&waited, &info);
    if (signal < 0) continue;
    if (signal != SIGCHLD) {
      // The terminal sends its signals to the command itself.
      if (info.si_code <= 0) ::kill(child, signal);
      continue;
    }
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended == child) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
  }
}

bool ReapAll() {
  for (;;) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0) return true;  // no children are left
    if (ended == 0) return false;
  }
}

// The machine ends, and so do its processes: they first get a signal to end, then are killed.
void EndWhatIsLeft() {
  for (int attempt = 0; attempt < 200 && !ReapAll(); ++attempt) {
    const int signal = attempt == 0 ? SIGTERM : SIGKILL;
    if (attempt == 0 || attempt >= 20) {
      for (const auto& process : base::Descendants(base::ProcFs().List(), ::getpid())) {
        if (process.id.pid != ::getpid()) (void)base::SendSignal(process.id, signal).has_value();
      }
    }
    ::usleep(10'000);
  }
}

}  // namespace

Result<int> Exec(const ExecOptions& options) {
  GPUMAN_ASSIGN(const auto libraries, LibraryDirectory());
  GPUMAN_ASSIGN(const MachineDirectory directory, MachineDirectory::Make(options.directory));
  CreateOptions machine = options.machine;
  GPUMAN_ASSIGN(machine.bus_to_device, ParseBusSpeeds(options.bus_to_device, machine.gpus));
  GPUMAN_ASSIGN(machine.bus_to_host, ParseBusSpeeds(options.bus_to_host, machine.gpus));
  GPUMAN_ASSIGN(const State state, MakeOrOpen(directory, machine));
  for (unsigned gpu = 0; gpu < state->gpus && !options.virtual_memory; ++gpu)
    state->gpu_static[gpu].features &= ~std::uint64_t{kFeatureVmm};
  ::setenv(kDirectoryVariable, directory.path().c_str(), 1);
  const std::string search = SearchPath(libraries, state->driver_major);
  ::setenv("LD_LIBRARY_PATH", WithFirst(search, std::getenv("LD_LIBRARY_PATH")).c_str(), 1);

  ::setenv("PATH", WithFirst((libraries / "bin").string(), std::getenv("PATH")).c_str(), 1);

  if (directory.temporary()) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const sigset_t waited = WaitedSignals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &waited, &before);
  const pid_t child = ::fork();
  if (child < 0) return base::FailSystem(errno, "starting " + options.command[0]);
  if (child == 0) Become(options.command, before);
  const int status = WaitFor(child, waited);
  if (directory.temporary()) EndWhatIsLeft();
  return status;
}

}  // namespace gpuman::sim
