// Tells systemd that the service is ready, alive or stopping. Does nothing where systemd has not started the
// service. The protocol is the one that sd_notify(3) and sd_watchdog_enabled(3) document. The daemon does not
// use libsystemd, because it and the libraries that it loads take 2 MiB.
#pragma once

#include <chrono>
#include <optional>

namespace gpuman::daemon {

void NotifyReady();
void NotifyStopping();
void NotifyReloading();
// The caller has to call it more often than once in WatchdogPeriod().
void NotifyAlive();
// nullopt: systemd does not watch the service.
std::optional<std::chrono::microseconds> WatchdogPeriod();

}  // namespace gpuman::daemon
