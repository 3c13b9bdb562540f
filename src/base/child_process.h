// A child process for an event loop: a worker starts its program, and the loop may kill it and reaps it.
//
// Not thread-safe: everything except the start runs on `loop`. A shared_ptr owns the object. Its owner may
// let go of it at any time: the child goes on, and the loop still reaps it when it ends.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::base {

// A program that was just started, and the socket to it. No thread reaps it yet.
struct SpawnedChild {
  pid_t pid = 0;
  Fd process;  // pidfd
  Fd socket;   // the parent's end
};

class ChildProcess : public std::enable_shared_from_this<ChildProcess> {
 public:
  // Starts the program; may block. Its error says why there is no child.
  using Spawn = std::function<Result<SpawnedChild>()>;
  // Gets the socket, which belongs to the callback from then on, or the error of Spawn.
  using OnSpawned = std::function<void(Result<Fd>)>;

  // `loop` and `workers` must outlive this object.
  ChildProcess(boost::asio::io_context& loop, boost::asio::thread_pool& workers);

  // Calls `spawn` on a worker, and then `on_spawned` once on the loop: also after Kill, and also when the
  // owner has let go of this object, because `on_spawned` must close the socket. Call Start once.
  void Start(Spawn spawn, OnSpawned on_spawned);
  // Sends SIGKILL. If the child has not started yet, the loop sends the signal after the start, before it
  // calls `on_spawned`. After the child has ended, this does nothing.
  void Kill();

  // 0 until the child has started; it keeps its value when the child has ended.
  pid_t pid() const { return pid_; }

 private:
  void Watch(SpawnedChild& spawned);

  boost::asio::io_context& loop_;
  boost::asio::thread_pool& workers_;
  bool killed_ = false;
  pid_t pid_ = 0;
  boost::asio::posix::stream_descriptor process_;  // open from the start until the child is reaped
};

}  // namespace gpuman::base
