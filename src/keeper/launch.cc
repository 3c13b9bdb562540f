#include "keeper/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/own_directory.h"
#include "base/process_spawner.h"
#include "base/remove_tree.h"
#include "keeper/credentials.h"
#include "keeper/journal_writer.h"

namespace gpuman::keeper {
namespace {

// The forked child. It reports to the keeper by lines on a close-on-exec pipe: the RunStarted record, or the
// StartFailed. When execve worked, the keeper sees only the end of the pipe.
class Child {
 public:
  Child(const ProcessLaunchRequest& request, const base::Clock& clock, pid_t keeper, int report_fd)
      : request_(request), clock_(clock), keeper_(keeper), report_fd_(report_fd), notes_(request.notes) {}

  [[noreturn]] void Run() {
    if (auto result = SetUp(); result)
      Report(Execute());
    else
      Report(result.error());
    ::_exit(127);
  }

 private:
  SetupResult SetUp() {
    base::ResetSignals();
    if (auto tied = TieToKeeper(); !tied) return tied;
    ::setsid();
    if (!request_.cgroup.empty())
      if (auto joined = base::WriteControl(request_.cgroup / "cgroup.procs", "0"); !joined)
        notes_.push_back(fmt::format("the job has no cgroup{}: {}",
                                     request_.spec.host.Any() ? ", and its host memory is not limited" : "",
                                     joined.error().message));
    StayOnProcessors();
    if (auto taken = TakeDescriptors(); !taken) return taken;
    ApplyLimits(request_.spec, notes_);
    ::umask(request_.spec.umask & 0777);
    if (auto taken = TakeIdentity(request_.spec); !taken) return taken;
    // The kernel clears the tie when the user changes.
    if (auto tied = TieToKeeper(); !tied) return tied;
    if (auto entered = EnterDirectory(request_.spec); !entered) return entered;
    return OpenFiles();
  }

  // SIGKILL when the keeper dies: no run goes on without a process that learns how it ended.
  SetupResult TieToKeeper() {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
      return SetupFailed("setup", errno, "tying the job to its keeper");
    if (::getppid() != keeper_) ::_exit(127);
    return {};
  }

  void StayOnProcessors() {
    if (request_.processors.empty()) return;
    const auto room = static_cast<std::size_t>(request_.processors.back()) + 1;
    cpu_set_t* const set = CPU_ALLOC(room);
    if (set == nullptr) {
      notes_.emplace_back("its processors are not limited: no memory");
      return;
    }
    CPU_ZERO_S(CPU_ALLOC_SIZE(room), set);
    for (const int processor : request_.processors)
      CPU_SET_S(static_cast<std::size_t>(processor), CPU_ALLOC_SIZE(room), set);
    if (::sched_setaffinity(0, CPU_ALLOC_SIZE(room), set) != 0)
      notes_.push_back(fmt::format("its processors are not limited: {}", std::strerror(errno)));
    CPU_FREE(set);
  }

  SetupResult TakeDescriptors() {
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0) return SetupFailed("setup", errno, "opening /dev/null");
    if (::dup2(null, 0) < 0 || ::dup2(request_.output_fd, 1) < 0 || ::dup2(request_.output_fd, 2) < 0)
      return SetupFailed("setup", errno, "connecting the output");
    if (::syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) != 0)
      return SetupFailed("setup", errno, "marking descriptors close-on-exec");
    return {};
  }

  // Runs as the job's user, in its directory.
  SetupResult OpenFiles() {
    const Spec& spec = request_.spec;
    if (auto made = MakeScript(); !made) return made;
    if (auto opened = OpenAs(0, spec.standard_input, O_RDONLY); !opened) return opened;
    if (auto opened = OpenAs(1, spec.standard_output, O_WRONLY | O_CREAT | O_APPEND); !opened) return opened;
    if (spec.standard_error.empty() || spec.standard_error == spec.standard_output) {
      if (!spec.standard_output.empty() && ::dup2(1, 2) < 0)
        return SetupFailed("file", errno, "connecting the errors");
      return {};
    }
    return OpenAs(2, spec.standard_error, O_WRONLY | O_CREAT | O_APPEND);
  }

  // Keeps the script in memory, so that nothing of it remains and no process changes it; only the interpreter
  // has it open.
  SetupResult MakeScript() {
    if (request_.spec.script.empty()) return {};
    const int fd = ::memfd_create("script", 0);
    if (fd < 0) return SetupFailed("setup", errno, "making the file of the script");
    if (auto written = base::WriteAll(fd, request_.spec.script); !written)
      return tl::unexpected(SetupError{"setup", 0, "writing the script: " + written.error().message});
    script_file_ = fmt::format("/dev/fd/{}", fd);
    return {};
  }

  static SetupResult OpenAs(int number, const std::filesystem::path& file, int flags) {
    if (file.empty()) return {};
    const int fd = ::open(file.c_str(), flags | O_CLOEXEC | O_NOCTTY, 0666);
    if (fd < 0) return SetupFailed("file", errno, fmt::format("opening {}", file.string()));
    if (::dup2(fd, number) < 0) return SetupFailed("file", errno, fmt::format("using {}", file.string()));
    return {};
  }

  SetupError Execute() {
    Spec merged = request_.spec;
    merged.extra_environment.insert(merged.extra_environment.end(), request_.extra_environment.begin(),
                                    request_.extra_environment.end());
    if (!script_file_.empty())
      std::replace(merged.argv.begin(), merged.argv.end(), std::string(kScriptArgument), script_file_);
    auto environment = MergedEnvironment(merged);
    auto file = FindCommand(merged.argv[0], PathOf(environment));
    if (!file) return std::move(file.error());
    const auto self = base::SelfId();
    const JournalRecord record = Stamp(clock_, request_.seq, RunStarted{request_.run, self, notes_});
    if (auto written = WriteRecord(request_.journal_fd, record); !written)
      return {"journal", 0, "the start could not be written down: " + written.error().message};
    (void)base::WriteAll(report_fd_, SerializeRecord(record) + "\n");

    auto argv = base::PointersTo(merged.argv);
    const auto envp = base::PointersTo(environment);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(file->c_str(), argv.data(), envp.data());
    int error = errno;
    if (error == ENOEXEC) {  // a script without "#!": the shell and execvp do the same
      argv[0] = file->data();
      argv.insert(argv.begin(), const_cast<char*>("sh"));
      ::execve("/bin/sh", argv.data(), envp.data());
    }
    // The file itself existed a moment ago.
    const char* hint = error == ENOENT ? " (the interpreter it asks for is missing)" : "";
    return {"exec", error, fmt::format("executing {}: {}{}", *file, std::strerror(error), hint)};
  }

  void Report(const SetupError& error) {
    const JournalRecord record =
        Stamp(clock_, 0, StartFailed{request_.run, error.stage, error.error_number, error.message});
    (void)base::WriteAll(report_fd_, SerializeRecord(record) + "\n");
  }

  const ProcessLaunchRequest& request_;
  const base::Clock& clock_;
  pid_t keeper_;
  int report_fd_;
  std::vector<std::string> notes_;
  std::string script_file_;  // empty: there is no script
};

constexpr std::size_t kMaxRemoved = 100'000;  // files of a run before; a run does not wait for more

// The user owns what is in it. So what is there from the run before goes, whatever it is.
base::Result<> MakeTraces(const Spec& spec) {
  if (spec.traces.empty()) return {};
  GPUMAN_TRY(base::MakeOwnDirectory(spec.traces.parent_path(), 0711));
  GPUMAN_ASSIGN(const bool gone, base::RemoveSomeOfTree(spec.traces, kMaxRemoved));
  if (!gone)
    return base::Fail(base::ErrorCode::kExhausted,
                      fmt::format("{} has too many files of the run before", spec.traces.string()),
                      "remove it");
  GPUMAN_TRY(base::MakeOwnDirectory(spec.traces, 0700));
  if (::geteuid() == 0 && ::lchown(spec.traces.c_str(), spec.uid, spec.gid) != 0)
    return base::FailSystem(errno, fmt::format("giving {} to its user", spec.traces.string()));
  return {};
}

}  // namespace

base::Result<LaunchingProcess> LaunchingProcess::Start(const ProcessLaunchRequest& asked,
                                                       const base::Clock& clock) {
  ProcessLaunchRequest request = asked;
  if (const auto made = MakeTraces(request.spec); !made)
    request.notes.push_back("its allocations are not traced: " + made.error().message);
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return base::FailSystem(errno, "making a pipe");
  base::Fd report(fds[0]);
  const base::Fd report_in(fds[1]);
  const pid_t keeper = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return base::FailSystem(errno, "forking");
  if (pid == 0) Child(request, clock, keeper, report_in.get()).Run();
  ::fcntl(report.get(), F_SETFL, O_NONBLOCK);
  return LaunchingProcess(pid, std::move(report));
}

bool LaunchingProcess::Poll() {
  for (;;) {
    char chunk[4096];
    const ssize_t n = ::read(report_.get(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return false;
    if (n <= 0) return true;
    buffer_.append(chunk, static_cast<std::size_t>(n));
    for (auto newline = buffer_.find('\n'); newline != std::string::npos; newline = buffer_.find('\n')) {
      TakeLine(std::string_view(buffer_).substr(0, newline));
      buffer_.erase(0, newline + 1);
    }
  }
}

void LaunchingProcess::TakeLine(std::string_view line) {
  auto record = ParseRecord(line);
  if (!record) return;
  if (const auto* failed = std::get_if<StartFailed>(&record->body))
    failed_ = *failed;
  else if (std::holds_alternative<RunStarted>(record->body))
    started_ = std::move(*record);
}

}  // namespace gpuman::keeper
