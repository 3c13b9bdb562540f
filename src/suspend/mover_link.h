// One gpuman-mover, as the event loop uses it: starts the mover, sends requests, and reports the mover's
// answers and its end.
//
// Starting a mover may block, so it runs on `workers`; everything else, the callbacks too, runs on `loop`.
// Not thread-safe. After Stop no callback comes; the mover ends by itself, and the link reaps it.
//
// The mover is its user's process, and the user may make it say anything. The link reads a little at a time
// and no faster than an honest mover speaks, and passes on only descriptors that can be memory of a GPU. All
// other descriptors, and those in unread messages, are closed in a thread for which no other thread waits
// (base/closer.h).
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/closer.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/result.h"
#include "suspend/mover_options.h"
#include "suspend/request.h"
#include "suspend/token_bucket.h"

namespace gpuman::suspend {

struct MoverPaths {
  std::filesystem::path path;  // gpuman-mover
  std::filesystem::path
      locks;  // the directory with a lock file for each MoverLimitGroup; empty: no lock files
};

// The name of the party's lock file: no other party has the same name, and the name never changes.
std::string LockNameOf(const MoverLimitGroup& party);

// Blocks until the program is executed. A daemon that is not root can start only movers of its own user.
base::Result<base::SpawnedChild> SpawnMover(const MoverPaths& program, const MoverUser& user);

class MoverLink : public std::enable_shared_from_this<MoverLink> {
 public:
  struct Callbacks {
    // The first answer is the mover's own state: kDone, or why the mover is of no use. The descriptors can be
    // memory of a GPU (handles.h); there are at most kMaxParts.
    std::function<void(const MoverAnswer&, std::vector<base::Fd>)> on_answer;
    // The mover could not be started, has ended or writes nonsense; nothing more comes.
    std::function<void(const base::Error&)> on_gone;
    // The mover runs. It has got no request yet, so it has no memory of a GPU.
    std::function<void(const base::ProcessId&)> on_started{};
  };

  MoverLink(boost::asio::io_context& loop, boost::asio::thread_pool& workers,
            std::shared_ptr<base::Closer> closer, Callbacks callbacks);

  void Start(const MoverPaths& program, const MoverUser& user);
  // Call it after the first answer; `files` go with the request and stay the caller's. If it cannot be sent,
  // the mover counts as ended.
  void Send(const MoverRequest& request, std::span<const int> files = {});
  // Closes the socket: the mover ends when it has done what it is doing.
  void Stop();
  // SIGKILL, and Stop.
  void Kill();

  // 0 until it has started.
  pid_t pid() const { return child_->pid(); }

 private:
  void OnSpawned(base::Result<base::Fd> socket);
  void Read();
  // Returns the part of the allowance that the message cost; 0: there is nothing more to read now.
  std::int64_t ReadOne();
  void Gone(const base::Error& error);

  const std::shared_ptr<base::Closer> closer_;
  Callbacks callbacks_;
  TokenBucket allowance_;
  boost::asio::steady_timer pause_;
  bool stopped_ = false;
  const std::shared_ptr<base::ChildProcess> child_;
  boost::asio::posix::stream_descriptor socket_;
  std::string chunk_;
};

}  // namespace gpuman::suspend
