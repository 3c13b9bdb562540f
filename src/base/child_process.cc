#include "base/child_process.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "base/await_ready.h"

namespace gpuman::base {

ChildProcess::ChildProcess(boost::asio::io_context& loop, boost::asio::thread_pool& workers)
    : loop_(loop), workers_(workers), process_(loop) {}

void ChildProcess::Start(Spawn spawn, OnSpawned on_spawned) {
  boost::asio::post(workers_, [self = shared_from_this(), spawn = std::move(spawn),
                               on_spawned = std::move(on_spawned)]() mutable {
    auto spawned = spawn();
    auto& loop = self->loop_;
    // The worker keeps nothing: what the callback holds is released on the loop.
    boost::asio::post(loop, [self = std::move(self), on_spawned = std::move(on_spawned),
                             spawned = std::move(spawned)]() mutable {
      if (!spawned) return on_spawned(Fail(std::move(spawned).error()));
      self->Watch(*spawned);
      if (self->killed_) self->Kill();
      on_spawned(std::move(spawned->socket));
    });
  });
}

void ChildProcess::Watch(SpawnedChild& spawned) {
  pid_ = spawned.pid;
  process_.assign(spawned.process.Release());
  AwaitReady(process_, process_.wait_read, POLLIN, [self = shared_from_this()] {
    ::waitpid(self->pid_, nullptr, WNOHANG);
    self->process_.close();
  });
}

void ChildProcess::Kill() {
  killed_ = true;
  if (process_.is_open()) ::syscall(SYS_pidfd_send_signal, process_.native_handle(), SIGKILL, nullptr, 0);
}

}  // namespace gpuman::base
