// Signals as a descriptor to poll beside sockets. Not thread-safe. For programs with one thread, or whose
// other threads begin while the object exists: they inherit the mask.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <initializer_list>

#include "base/fd.h"

namespace gpuman::cli {

// While an object of this class exists, these signals arrive as readable bytes and have no other effect.
class SignalWatch {
 public:
  SignalWatch(std::initializer_list<int> signals) {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : signals) ::sigaddset(&set, signal);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    fd_ = base::Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

  int fd() const { return fd_.get(); }
  // The next signal that came; 0: none.
  int Take() {
    signalfd_siginfo info{};
    return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  base::Fd fd_;
};

}  // namespace gpuman::cli
