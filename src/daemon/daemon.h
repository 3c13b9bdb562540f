// The daemon: the core, the capabilities in the order in which they build on each other, and the HTTP
// service.
//
// A capability is a folder with a module, and one line in AddModules. Lives on the event loop; not
// thread-safe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "daemon/config/config.h"
#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/http/router.h"
#include "daemon/http/server.h"

namespace gpuman::daemon {

class Daemon {
 public:
  // Claims the state directory, opens the store, listens, picks up the jobs, and begins to sample.
  static base::Result<std::unique_ptr<Daemon>> Start(boost::asio::io_context& loop, const Config& config,
                                                     DaemonOptions options);
  // Calls Stop, unless the caller has called it already.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Takes over the settings that can change without a restart: all but paths and HTTP limits.
  void Reconfigure(const Config& config) { core_->Reconfigure(config); }
  // Stops all modules and the core, which writes to the store all that is still to be written.
  void Stop();
  // After Stop. True: a call of the driver or of the kernel has not returned, and its thread cannot be
  // joined. The process must then end by _exit.
  bool left_a_thread() const { return left_a_thread_; }

 private:
  Daemon(boost::asio::io_context& loop, std::unique_ptr<Core> core);
  void AddModules();
  template <typename M, typename... Uses>
  M& Add(Uses&&... uses) {
    auto module = std::make_unique<M>(*core_, std::forward<Uses>(uses)...);
    M& added = *module;
    core_->Add(added);
    modules_.push_back(std::move(module));
    return added;
  }
  void Serve(base::Fd listener);
  void Tick();

  std::unique_ptr<Core> core_;
  std::vector<std::unique_ptr<Module>> modules_;  // in the order of construction
  http::Router router_;
  std::unique_ptr<http::Server> server_;
  boost::asio::steady_timer tick_;  // watchdogs, of the driver and of systemd
  base::MonoTime trim_at_{};
  bool stopped_ = false;
  bool left_a_thread_ = false;
};

}  // namespace gpuman::daemon
