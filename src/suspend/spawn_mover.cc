#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/process_spawner.h"
#include "suspend/mover_link.h"

namespace gpuman::suspend {
namespace {

using base::FailSystem;
using base::Result;

// Whether a mover gets this variable of the daemon's environment: it gets those that say how programs and
// libraries are found. It does not get CUDA_VISIBLE_DEVICES, because it needs every GPU of the machine, or
// its instance, and it does not get LD_PRELOAD.
bool IsPassedOn(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  return name == "PATH" || name == "LD_LIBRARY_PATH" || name.starts_with("GPUMAN_SIM_") ||
         name.ends_with("SAN_OPTIONS");
}

std::vector<std::string> Words(const MoverPaths& program, const MoverUser& user) {
  std::vector<std::string> words{program.path.string()};
  if (::geteuid() == 0 && (user.uid != 0 || user.gid != ::getegid())) {
    words.insert(words.end(),
                 {"--uid", std::to_string(user.uid), "--gid", std::to_string(user.gid), "--groups", ""});
    for (const gid_t group : user.groups) {
      if (!words.back().empty()) words.back() += ',';
      words.back() += std::to_string(group);
    }
  }
  if (!program.locks.empty()) words.emplace_back("--lock");
  return words;
}

// Moves the descriptor above the numbers that the child takes, so that one dup2 does not close what another
// needs.
Result<base::Fd> Lifted(base::Fd fd) {
  base::Fd lifted(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kMoverLock + 1));
  if (!lifted.ok()) return FailSystem(errno, "duplicating a descriptor");
  return lifted;
}

}  // namespace

std::string LockNameOf(const MoverLimitGroup& party) {
  return party.trust.empty() ? fmt::format("checkpoint-{}.lock", party.uid)
                             : fmt::format("checkpoint-{}-{:016x}.lock", party.uid, base::Fnv1a(party.trust));
}

Result<base::SpawnedChild> SpawnMover(const MoverPaths& program, const MoverUser& user) {
  if (::geteuid() != 0 && ::geteuid() != user.uid)
    return base::Fail(
        base::ErrorCode::kPermissionDenied,
        fmt::format("a daemon of user {} cannot checkpoint processes of user {}", ::geteuid(), user.uid));
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return FailSystem(errno, "making a socket for gpuman-mover");
  base::SpawnedChild mover;
  mover.socket = base::Fd(pair[0]);
  GPUMAN_ASSIGN(const base::Fd theirs, Lifted(base::Fd(pair[1])));
  base::Fd lock;
  if (!program.locks.empty()) {
    // Each mover has an open file description of its own, so that they exclude one another.
    const auto file = program.locks / LockNameOf(PartyOf(user));
    GPUMAN_ASSIGN(base::Fd opened, base::OpenFile(file, O_RDWR | O_CREAT, 0600));
    GPUMAN_ASSIGN(lock, Lifted(std::move(opened)));
  }
  std::vector<std::string> words = Words(program, user), environment;
  for (auto& variable : base::OwnEnvironment())
    if (IsPassedOn(variable)) environment.push_back(std::move(variable));
  if (!user.instance.empty()) environment.push_back("CUDA_VISIBLE_DEVICES=" + user.instance);
  const auto argv = base::PointersTo(words);
  const auto envp = base::PointersTo(environment);
  base::ProcessSpawner setup;
  setup.Give(theirs.get(), kMoverSocket);
  setup.GiveNull(1, O_WRONLY);
  setup.GiveNull(2, O_WRONLY);
  if (lock.ok()) setup.Give(lock.get(), kMoverLock);
  setup.CloseFrom(lock.ok() ? kMoverLock + 1 : kMoverLock);
  GPUMAN_ASSIGN(mover.pid, setup.Start(program.path.c_str(), argv.data(), envp.data()));
  GPUMAN_ASSIGN(mover.process, base::WatchChild(mover.pid));
  return mover;
}

}  // namespace gpuman::suspend
