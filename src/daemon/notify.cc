#include "daemon/notify.h"

#ifdef GPUMAN_HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#include <time.h>

#include <cinttypes>
#endif

namespace gpuman::daemon {

#ifdef GPUMAN_HAVE_SYSTEMD

void NotifyReady() { ::sd_notify(0, "READY=1"); }
void NotifyStopping() { ::sd_notify(0, "STOPPING=1"); }
void NotifyReloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  ::sd_notifyf(
      0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1000);
}
void NotifyStatus(const std::string& line) { ::sd_notify(0, ("STATUS=" + line).c_str()); }
void NotifyAlive() { ::sd_notify(0, "WATCHDOG=1"); }
std::optional<std::chrono::microseconds> WatchdogPeriod() {
  std::uint64_t period = 0;
  if (::sd_watchdog_enabled(0, &period) <= 0 || period == 0) return std::nullopt;
  return std::chrono::microseconds(period);
}

#else

void NotifyReady() {}
void NotifyStopping() {}
void NotifyReloading() {}
void NotifyStatus(const std::string&) {}
void NotifyAlive() {}
std::optional<std::chrono::microseconds> WatchdogPeriod() { return std::nullopt; }

#endif

}  // namespace gpuman::daemon
