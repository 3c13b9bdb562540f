#include "daemon/core/memory_guard_loop.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "daemon/config/guard_settings.h"
#include "daemon/core/core.h"
#include "daemon/core/views.h"

namespace gpuman::daemon {

MemoryGuardLoop::MemoryGuardLoop(Core& core)
    : core_(core),
      guard_(GuardSettingsOf(core.config()), core.processes(), static_cast<guard::Actuator&>(*this),
             core.clock(),
             [&core](const std::string& uuid, base::Millis period) {
               core.sampling().sampler().SetPeriod(uuid, period);
             }),
      timer_(core.loop()) {}

void MemoryGuardLoop::Rearm() {
  const auto deadline = guard_.NextDeadline();
  if (!deadline) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(*deadline);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    guard_.OnTime();
    Rearm();
  });
}

void MemoryGuardLoop::Reconfigure() { guard_.SetSettings(GuardSettingsOf(core_.config())); }

void MemoryGuardLoop::Announce(base::JobId job, const std::string& reason, const std::string& detail) {
  core_.jobs().Announce(job, {reason, detail});
}

base::Result<> MemoryGuardLoop::SignalJob(base::JobId job, int signal,
                                          std::function<void(const guard::SignalJobResult&)> sent) {
  return core_.jobs().Signal(job, signal, [sent = std::move(sent)](const jobs::SignalOrderResult& done) {
    sent({done.processes, done.at});
  });
}

base::Result<> MemoryGuardLoop::SignalProcess(base::ProcessId process, int signal) {
  return base::SendSignal(process, signal);
}

void MemoryGuardLoop::SuspendJob(base::JobId job, const std::string& reason, const std::string& detail,
                                 base::Millis return_after) {
  core_.callbacks().suspend_job(job, reason, detail, return_after);
}

void MemoryGuardLoop::Note(base::JobId job, const std::string& line) { core_.jobs().Note(job, line); }

void MemoryGuardLoop::Emit(guard::Event event) {
  spdlog::warn("{}: {}", event.kind, event.message);
  core_.events().Add(
      StoredEvent(event, core_.clock().Wall(), [this](base::JobId id) { return core_.TagOf(id); }));
}

}  // namespace gpuman::daemon
