#include "ranks.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/process_spawner.h"
#include "exit_code.h"
#include "rank.h"

namespace gpuman::load {
namespace {

[[noreturn]] void BeRank(const Options& options, Report& report, const Shared& shared, unsigned rank,
                         pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kLost);
  ::_exit(RunRank(options, report, shared, rank));
}

void KillAll(const std::vector<pid_t>& ranks) {
  for (const pid_t rank : ranks)
    if (rank > 0) ::kill(rank, SIGKILL);
}

// Waits for all. `ranks` are processes; those that have ended become 0.
int Await(std::vector<pid_t>& ranks, Report& report) {
  int worst = kDone;
  bool lost = false;
  for (std::size_t left = ranks.size(); left > 0;) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) break;
    const auto at = std::find(ranks.begin(), ranks.end(), ended);
    if (at == ranks.end()) continue;
    *at = 0;
    --left;
    if (lost) continue;
    const int code = base::ShellStatus(status);
    worst = std::max(worst, code);
    if (code == kDone || code == kDataWrong) continue;
    lost = true;
    report.Event("lost", {{"rank", at - ranks.begin()}, {"child_pid", ended}, {"exit", code}});
    KillAll(ranks);
    worst = code;
  }
  return worst;
}

int RunProcesses(const Options& options, Report& report, const Shared& shared) {
  std::vector<pid_t> ranks;
  const pid_t parent = ::getpid();
  for (unsigned rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) {
      KillAll(ranks);
      return report.Failed({base::ErrorCode::kInternal, "a rank could not be started"});
    }
    if (child == 0) BeRank(options, report, shared, rank, parent);
    ranks.push_back(child);
    report.Event("child", {{"rank", rank}, {"child_pid", child}});
  }
  return Await(ranks, report);
}

int RunThreads(const Options& options, Report& report, const Shared& shared) {
  std::atomic<int> worst = kDone;
  std::vector<std::thread> ranks;
  for (unsigned rank = 0; rank < options.ranks; ++rank)
    ranks.emplace_back([&, rank] {
      const int code = RunRank(options, report, shared, rank);
      if (code == kDataWrong) worst = kDataWrong;
      if (code == kDone || code == kDataWrong) return;
      report.Event("lost", {{"rank", rank}, {"exit", code}});
      ::_exit(code);
    });
  for (auto& rank : ranks) rank.join();
  return worst;
}

}  // namespace

int RunRanks(const Options& options, Report& report) {
  // A kernel that the driver loads at its first launch would wait for one that waits for another rank.
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  Shared shared;
  shared.board = Board::Map(options.peer == Peer::kHost ? options.ranks * kWindowBytes : 0);
  if (!shared.board) return report.Failed({base::ErrorCode::kExhausted, "there is no memory for the ranks"});
  const auto mailboxes = Mailboxes::Make(options.ranks);
  if (!mailboxes) return report.Failed(mailboxes.error());
  shared.mailboxes = &*mailboxes;
  return options.threads ? RunThreads(options, report, shared) : RunProcesses(options, report, shared);
}

}  // namespace gpuman::load
