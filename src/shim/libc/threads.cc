#include "shim/libc/threads.h"

#include <pthread.h>
#include <signal.h>

#include <cstddef>

namespace gpuman::shim {
namespace {

// Enough for the driver's calls, and for what the program keeps for each thread.
constexpr std::size_t kStack = std::size_t{1} << 20;

}  // namespace

bool StartThread(void* (*run)(void*), void* argument) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  ::pthread_attr_setstacksize(&attributes, kStack);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = ::pthread_create(&thread, &attributes, run, argument) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  if (started) ::pthread_setname_np(thread, "gpuman");
  return started;
}

}  // namespace gpuman::shim
