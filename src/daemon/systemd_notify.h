// Tells systemd that the service is ready, alive, stopping; does nothing where there is none. The protocol is
// the one sd_notify(3) and sd_watchdog_enabled(3) document: libsystemd and what it loads would be 2 MiB of
// the daemon.
#pragma once

#include <chrono>
#include <optional>

namespace gpuman::daemon {

void NotifyReady();
void NotifyStopping();
void NotifyReloading();
// To be called more often than WatchdogPeriod().
void NotifyAlive();
// nullopt: nobody watches.
std::optional<std::chrono::microseconds> WatchdogPeriod();

}  // namespace gpuman::daemon
