#include "keeper/client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/passed_files.h"
#include "base/process_spawner.h"
#include "keeper/held_file.h"
#include "keeper/job_dir.h"

namespace gpuman::keeper {
namespace {

using base::ErrorCode;
using base::Fail;
using base::FailSystem;
using Deadline = std::chrono::steady_clock::time_point;

base::Result<> SyncPath(const std::filesystem::path& path, int flags) {
  GPUMAN_ASSIGN(const base::Fd fd, base::OpenFile(path, flags));
  if (::fsync(fd.get()) != 0) return FailSystem(errno, fmt::format("syncing {}", path.string()));
  return {};
}

// Everything that `fd` yields until its writers have closed it; kTimeout at the deadline.
base::Result<std::string> ReadUntilClosed(int fd, Deadline deadline) {
  std::string text;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<base::Millis>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return Fail(ErrorCode::kTimeout, "the keeper does not get ready");
    pollfd poller{fd, POLLIN, 0};
    if (::poll(&poller, 1, static_cast<int>(left)) <= 0) continue;
    char buffer[1024];
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n == 0) return text;
    if (n > 0) text.append(buffer, static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR) return FailSystem(errno, "reading from the keeper");
  }
}

base::Result<int> ExitStatusOf(pid_t pid) {
  const auto status = base::WaitForChild(pid);
  if (!status) return FailSystem(errno, "waiting for the keeper");
  if (WIFSIGNALED(*status))
    return Fail(ErrorCode::kUnavailable, fmt::format("it was killed by signal {}", WTERMSIG(*status)));
  return WEXITSTATUS(*status);
}

base::Result<KeeperSpawnOutcome> OutcomeOf(int exit_status, std::string said) {
  while (!said.empty() && said.back() == '\n') said.pop_back();
  switch (exit_status) {
    case kExitStarted:
      return KeeperSpawnOutcome::kStarted;
    case kExitAlreadyRunning:
      return KeeperSpawnOutcome::kAlreadyRunning;
    case kExitAlreadyEnded:
      return KeeperSpawnOutcome::kAlreadyEnded;
    case kExitDamaged:
      return Fail(ErrorCode::kCorrupt, std::move(said));
    default:
      // A keeper that fails says why.
      if (said.empty()) return Fail(ErrorCode::kUnavailable, "it was killed before it was ready");
      return Fail(ErrorCode::kInternal, std::move(said));
  }
}

}  // namespace

namespace {

// Writes a new spec in place before it syncs: no process can be reading it, and on file systems with a
// journal one sync then writes the file and all names made so far. Replaces a spec that exists: a keeper may
// be reading the old one.
base::Result<> PutSpec(const std::filesystem::path& job_dir, const Spec& spec) {
  const auto path = job_dir / kSpecFile;
  const std::string text = SerializeSpec(spec);
  const base::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.ok()) return base::ReplaceFile(path, text, 0600);
  if (auto written = base::WriteAll(fd.get(), text); !written) {
    ::unlink(path.c_str());
    return Fail(std::move(written.error()).In(path.string()));
  }
  if (::fsync(fd.get()) != 0) return FailSystem(errno, fmt::format("syncing {}", path.string()));
  return SyncPath(job_dir, O_RDONLY | O_DIRECTORY);
}

}  // namespace

base::Result<> PrepareJob(const std::filesystem::path& job_dir, const Spec& spec) {
  if (::mkdir(job_dir.c_str(), 0700) != 0 && errno != EEXIST)
    return FailSystem(errno, fmt::format("making {}", job_dir.string()));
  // The journal first: the directory is synced after both names are in it.
  GPUMAN_ASSIGN(const base::Fd journal, base::OpenFile(job_dir / kJournalFile, O_WRONLY | O_CREAT, 0600));
  struct stat status {};
  if (::fstat(journal.get(), &status) != 0 || status.st_size > 0)
    return Fail(ErrorCode::kAlreadyExists, fmt::format("{} holds the journal of a job", job_dir.string()));
  GPUMAN_TRY(Validate(spec));
  GPUMAN_TRY(PutSpec(job_dir, spec));
  const auto parent = job_dir.parent_path();
  return SyncPath(parent.empty() ? std::filesystem::path(".") : parent, O_RDONLY | O_DIRECTORY);
}

base::Result<Spec> ReadSpec(const std::filesystem::path& job_dir) {
  GPUMAN_ASSIGN(const auto text, base::ReadFile(job_dir / kSpecFile));
  return ParseSpec(text);
}

base::Result<KeeperSpawnOutcome> SpawnKeeper(const KeeperSpawnOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) return FailSystem(errno, "making a pipe for the keeper");
  const base::Fd errors(pipe_fds[0]);
  base::Fd errors_in(pipe_fds[1]);

  std::vector<std::string> words{options.program.string(), "--job-dir", options.job_dir.string(),
                                 "--known-records", std::to_string(options.known_records)};
  const auto argv = base::PointersTo(words);
  base::ProcessSpawner setup;
  setup.GiveNull(0, O_RDONLY);
  setup.GiveNull(1, O_WRONLY);
  setup.Give(errors_in.get(), 2);
  setup.CloseFrom(3);
  GPUMAN_ASSIGN(const pid_t pid, setup.Start(options.program.c_str(), argv.data(), ::environ));
  errors_in.Close();
  auto said = ReadUntilClosed(errors.get(), deadline);
  if (!said) ::kill(pid, SIGKILL);
  GPUMAN_ASSIGN(const int status, ExitStatusOf(pid));
  if (!said) return Fail(said.error());
  auto outcome = OutcomeOf(status, std::move(*said));
  if (!outcome && outcome.error().code != ErrorCode::kCorrupt)
    return Fail(std::move(outcome.error()).In("starting the keeper"));
  return outcome;
}

base::Result<std::string> ReadSavedHeld(const std::filesystem::path& job_dir) {
  return base::ReadFile(job_dir / kHeldFile, kMaxHeld);
}

bool KeeperLives(const std::filesystem::path& job_dir) { return LockHeld(job_dir); }

base::Result<KeeperConnection> KeeperConnection::Connect(const std::filesystem::path& job_dir) {
  GPUMAN_ASSIGN(const base::Fd directory, OpenDirectory(job_dir));
  base::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return FailSystem(errno, "making a socket");
  const sockaddr_un address = ControlAddress(directory.get());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN)
      return Fail(ErrorCode::kUnavailable, fmt::format("no keeper listens in {}", job_dir.string()));
    return FailSystem(errno, fmt::format("connecting to the keeper in {}", job_dir.string()));
  }
  const std::string hello = SerializeMessage(ClientMessage(ClientHello{}));
  if (::send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    return Fail(ErrorCode::kUnavailable, fmt::format("the keeper in {} hung up", job_dir.string()));
  return KeeperConnection(std::move(fd));
}

base::Result<std::optional<KeeperMessage>> KeeperConnection::Receive() {
  std::string packet(kMaxPacket, '\0');
  for (;;) {
    const ssize_t n = ::recv(fd_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (n <= 0) return Fail(ErrorCode::kUnavailable, "the keeper hung up");
    auto message = ParseKeeperMessage(std::string_view(packet).substr(0, static_cast<std::size_t>(n)));
    if (message) return std::move(*message);
    if (message.error().code != ErrorCode::kNotSupported) return Fail(std::move(message.error()));
  }
}

base::Result<std::uint64_t> KeeperConnection::Send(Command command, int file) {
  const std::uint64_t id = next_id_++;
  const std::string packet = SerializeMessage(ClientMessage(NumberedCommand{id, std::move(command)}));
  if (packet.size() > kMaxPacket)
    return Fail(ErrorCode::kInvalidArgument, "the message to the keeper is too long");
  const std::array files{file};
  if (base::SendWithFiles(fd_.get(), packet, file < 0 ? std::span<const int>() : files) < 0)
    return Fail(ErrorCode::kUnavailable, "the keeper takes no more messages");
  return id;
}

}  // namespace gpuman::keeper
