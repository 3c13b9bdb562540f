// The guard on the event loop: wakes it at its deadlines, and carries out what it orders.
//
// Not thread-safe.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "guard/enforcer.h"
#include "guard/guard.h"

namespace gpuman::daemon {

class Core;

class MemoryGuardLoop final : private guard::Actuator {
 public:
  // `core` must outlive this object.
  explicit MemoryGuardLoop(Core& core);
  MemoryGuardLoop(const MemoryGuardLoop&) = delete;
  MemoryGuardLoop& operator=(const MemoryGuardLoop&) = delete;

  guard::Guard& guard() { return guard_; }
  const guard::Guard& guard() const { return guard_; }
  // The caller has told the guard something, so that the guard's next deadline may have changed.
  void Rearm();
  // Core::config() has changed.
  void Reconfigure();

 private:
  void Announce(base::JobId job, const std::string& reason, const std::string& detail) override;
  base::Result<> SignalJob(base::JobId job, int signal,
                           std::function<void(const guard::SignalJobResult&)> sent) override;
  base::Result<> SignalProcess(base::ProcessId process, int signal) override;
  void SuspendJob(base::JobId job, const std::string& reason, const std::string& detail,
                  base::Millis return_after) override;
  void Note(base::JobId job, const std::string& line) override;
  void Emit(guard::Event event) override;

  Core& core_;
  guard::Guard guard_;
  boost::asio::steady_timer timer_;
};

}  // namespace gpuman::daemon
