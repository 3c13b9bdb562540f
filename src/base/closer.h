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

}  // namespace gpuman::base
