// A process that forks as fast as it can, ignores SIGTERM and leaves its session now and then. For a user
// with a limit on processes: it does not end by itself.
#include <sched.h>
#include <signal.h>
#include <unistd.h>

int main() {
  signal(SIGTERM, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);
  for (unsigned turn = 0;; ++turn) {
    const pid_t pid = fork();
    if (pid == 0 && turn % 3 == 0) setsid();
    if (pid < 0) sched_yield();
  }
}
