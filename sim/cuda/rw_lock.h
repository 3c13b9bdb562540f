// A lock for many readers and one writer. A waiting writer keeps new readers out, so that a stream of readers
// cannot starve it. A thread must not lock it twice.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cerrno>
#include <cstdint>

namespace gpuman::sim::cuda {

class RwLock {
 public:
  RwLock() {
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&lock_, &attributes);
    pthread_rwlockattr_destroy(&attributes);
  }
  ~RwLock() { pthread_rwlock_destroy(&lock_); }
  RwLock(const RwLock&) = delete;
  RwLock& operator=(const RwLock&) = delete;

  // The names that std::shared_lock and std::unique_lock need.
  void lock() { pthread_rwlock_wrlock(&lock_); }
  void unlock() { pthread_rwlock_unlock(&lock_); }
  void lock_shared() { pthread_rwlock_rdlock(&lock_); }
  void unlock_shared() { pthread_rwlock_unlock(&lock_); }

  // False if it could not lock by the deadline (CLOCK_REALTIME, nanoseconds).
  bool LockUntil(std::uint64_t deadline_ns) {
    timespec deadline{};
    deadline.tv_sec = static_cast<time_t>(deadline_ns / 1'000'000'000);
    deadline.tv_nsec = static_cast<long>(deadline_ns % 1'000'000'000);
    return pthread_rwlock_timedwrlock(&lock_, &deadline) == 0;
  }

 private:
  pthread_rwlock_t lock_;
};

}  // namespace gpuman::sim::cuda
