// Closes what strangers have passed along, where nobody waits for it.
//
// Who drops the last reference to a socket that lingers (SO_LINGER) waits for as long as its owner wished,
// and so does who closes a connection on which such a socket is queued, at any depth. A thread that ends does
// not wait (inet_release in the kernel). So a thread of its own takes over the descriptors in a table of its
// own (unshare(2), CLONE_FILES), they are closed here while they are not the last, and that thread ends.
//
// Thread-safe. Never waits in Close.
#pragma once

#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace gpuman::base {

class Closer {
 public:
  Closer() = default;
  // Waits until everything has been handed over, which no stranger can delay.
  ~Closer();
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  // Soon. The thread begins with the first.
  void Close(Fd fd);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<Fd> waiting_;
  bool ending_ = false;
  std::thread thread_;
};

// While one exists, every Closer of this process keeps what it is to close; there may be many at once. A child
// of fork(2) or posix_spawn(3) has copies of all descriptors until it executes. If the parent closed its own
// meanwhile, the child's would be the last, and the child (and posix_spawn, which waits for it) would wait for
// as long as a stranger wished. Thread-safe; to be held briefly.
class CloserPause {
 public:
  CloserPause();

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

}  // namespace gpuman::base
