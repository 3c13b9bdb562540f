// Holds a mutex for as long as an object lives.
#pragma once

#include <pthread.h>

namespace gpuman::shim {

// The shim's mutexes lie in memory of zeros. In libc, zeros are a free mutex.
class Locked {
 public:
  explicit Locked(pthread_mutex_t& mutex) : mutex_(mutex) { ::pthread_mutex_lock(&mutex_); }
  ~Locked() { ::pthread_mutex_unlock(&mutex_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

// The same, where the mutex is free; it does not wait.
class TryLocked {
 public:
  explicit TryLocked(pthread_mutex_t& mutex) : mutex_(mutex), held_(::pthread_mutex_trylock(&mutex_) == 0) {}
  ~TryLocked() {
    if (held_) ::pthread_mutex_unlock(&mutex_);
  }
  TryLocked(const TryLocked&) = delete;
  TryLocked& operator=(const TryLocked&) = delete;
  explicit operator bool() const { return held_; }

 private:
  pthread_mutex_t& mutex_;
  const bool held_;
};

}  // namespace gpuman::shim
