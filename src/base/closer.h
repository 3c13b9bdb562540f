// Closes descriptors that strangers have passed to this process, in a separate thread, so that no other
// thread waits for the close.
//
// A thread that drops the last reference to a socket that lingers (SO_LINGER) waits for as long as the
// socket's owner has chosen. The same holds for closing a connection on which such a socket is queued, at any
// depth. A thread that ends does not wait (inet_release in the kernel). So the separate thread takes
// the descriptors over in a table of its own (unshare(2), CLONE_FILES). Then this process closes its copies,
// which are not the last ones, and at last the thread ends.
//
// Thread-safe. Close never waits.
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
  // Waits until everything has been handed over. No stranger can delay that.
  ~Closer();
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  // Closes `fd` soon. The first call starts the thread.
  void Close(Fd fd);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<Fd> waiting_;
  bool ending_ = false;
  std::thread thread_;
};

// While a pause exists, every Closer of this process keeps the descriptors that it is to close; several
// pauses may exist at once. A child of fork(2) or posix_spawn(3) has copies of all descriptors until it
// executes. If the parent closed its copies meanwhile, the child would have the last ones, and the child (and
// posix_spawn, which waits for it) would wait for as long as a stranger has chosen. Thread-safe; hold it
// briefly.
class CloserPause {
 public:
  CloserPause();

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

}  // namespace gpuman::base
