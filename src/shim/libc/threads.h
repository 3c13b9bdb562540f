// Threads of the shim. They are detached, block all signals, and do not keep the program from ending.
#pragma once

#include <pthread.h>

namespace gpuman::shim {

// Starts a thread. Returns false where the process can have no more threads.
bool StartThread(void* (*run)(void*), void* argument);

// Keeps the calling thread from being cancelled while an object lives. A thread of the program that is
// cancelled inside the shim would leave the shim's mutexes locked.
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
