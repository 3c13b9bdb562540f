// Threads of the shim's own: detached, without a signal of the program's, and not in the way of its end.
#pragma once

#include <pthread.h>

namespace gpuman::shim {

// False: there can be no more threads.
bool StartThread(void* (*run)(void*), void* argument);

// A thread of the program's that is cancelled within one would leave the shim's mutexes taken.
class NoCancellation {
 public:
  NoCancellation() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { ::pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = 0;
};

}  // namespace gpuman::shim
