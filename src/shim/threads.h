// Threads of the shim's own: detached, without a signal of the program's, and not in the way of its end.
#pragma once

#include <pthread.h>

namespace gpuman::shim {

// False: there can be no more threads.
bool StartThread(void* (*run)(void*), void* argument);

// For a thread of the shim's that calls the driver, before the gate is ever shut: no capture is its business,
// and what is kept for it by thread is made. That can take the linker's lock, as LearnAll does (driver.h).
void MeetDriver();

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
